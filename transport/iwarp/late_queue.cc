#include "transport/iwarp/late_queue.h"

#include <algorithm>

#include "core/clock.h"
#include "transport/iwarp/completion.h"
#include "transport/iwarp/faults.h"
#include "transport/iwarp/qp.h"

namespace sluice::iwarp {
namespace {

// Of one send queue or one receive queue: only there verbs promise an order.
bool SameWorkQueue(const ibv_wc& one, const ibv_wc& other) {
  return one.qp_num == other.qp_num &&
         (one.opcode == IBV_WC_RECV) == (other.opcode == IBV_WC_RECV);
}

}  // namespace

void LateQueue::Add(PollGroup* group, const Entry& entry,
                    int64_t lateness_nanos) {
  Entry added = entry;
  if (lateness_nanos != Faults::kUntilReleased) {
    const int64_t due = Clock::Real()->NowNanos() + lateness_nanos;
    added.due_nanos = std::max(entry.due_nanos, due);
  } else {
    added.due_nanos = Faults::kUntilReleased;
  }
  entries_.push_back(added);
  Faults::Get().OnLate();
  group->SetDeadline(added.due_nanos);
}

bool LateQueue::Keep(PollGroup* group, Cq* cq, const ibv_wc& wc,
                     bool solicited) {
  const int64_t lateness = Faults::Get().LatenessOf(wc, group);
  const auto before =
      std::find_if(entries_.rbegin(), entries_.rend(), [&](const Entry& entry) {
        return !entry.is_notification && SameWorkQueue(entry.wc, wc);
      });
  if (lateness == 0 && before == entries_.rend()) return false;
  Entry entry;
  entry.cq = cq;
  entry.wc = wc;
  entry.solicited = solicited;
  if (before != entries_.rend()) entry.due_nanos = before->due_nanos;
  Add(group, entry, lateness);
  return true;
}

bool LateQueue::KeepNotification(PollGroup* group, Cq* cq) {
  const int64_t lateness = Faults::Get().LatenessOfNotification(group);
  if (lateness == 0) return false;
  Entry entry;
  entry.cq = cq;
  entry.is_notification = true;
  Add(group, entry, lateness);
  return true;
}

// Those that are due leave the queue first: what they announce may come here.
void LateQueue::Deliver(PollGroup* group, int64_t now_nanos) {
  std::vector<Entry> due;
  std::erase_if(entries_, [&](const Entry& entry) {
    if (entry.due_nanos > now_nanos) return false;
    due.push_back(entry);
    return true;
  });
  for (const Entry& entry : due) {
    if (entry.is_notification) {
      PushNotification(group, entry.cq);
    } else {
      PutCompletion(group, entry.cq, entry.wc, entry.solicited);
    }
  }
  Faults::Get().OnNoLonger(due.size());
  for (const Entry& entry : entries_) group->SetDeadline(entry.due_nanos);
}

void LateQueue::Forget(const Qp* qp) {
  const size_t forgotten = std::erase_if(entries_, [qp](const Entry& entry) {
    if (!entry.is_notification) return entry.wc.qp_num == qp->qp_num;
    if (entry.cq->group == qp->group) return false;
    PushNotification(qp->group.get(), entry.cq);
    return true;
  });
  Faults::Get().OnNoLonger(forgotten);
}

void LateQueue::Forget(const Cq* cq) {
  const size_t forgotten = std::erase_if(
      entries_, [cq](const Entry& entry) { return entry.cq == cq; });
  Faults::Get().OnNoLonger(forgotten);
}

}  // namespace sluice::iwarp
