#include "transport/iwarp/completion.h"

#include <algorithm>

#include "transport/iwarp/device.h"
#include "transport/iwarp/faults.h"
#include "transport/iwarp/qp.h"

namespace sluice::iwarp {
namespace {

// With the CQ's lock held.
void Notify(PollGroup* group, Cq* cq, bool solicited) {
  const bool wanted = cq->arming == Arming::kAny ||
                      (cq->arming == Arming::kSolicited && solicited);
  if (!wanted) return;
  cq->arming = Arming::kNone;
  if (cq->channel == nullptr) return;
  if (Faults::any()) {
    if (Faults::Get().SwallowsNotification()) return;
    if (group->late.KeepNotification(group, cq)) return;
  }
  PushNotification(group, cq);
  if (Faults::Get().DoublesNotification()) PushNotification(group, cq);
}

// With the CQ's lock held.
void KillLocked(Cq* cq) {
  if (cq->dead) return;
  cq->dead = true;
  ibv_async_event event = {};
  event.element.cq = cq;
  event.event_type = IBV_EVENT_CQ_ERR;
  PushAsyncEvent(cq->context, event);
  DeadCqCount().fetch_add(1, std::memory_order_release);
  // Those who sleep on its queue pairs must see to them.
  cq->group->Wake();
  for (const auto& group : cq->groups) group->Wake();
}

}  // namespace

std::atomic<uint32_t>& DeadCqCount() {
  static std::atomic<uint32_t> count{0};
  return count;
}

void AddCompletion(PollGroup* group, Cq* cq, const ibv_wc& wc, bool solicited) {
  if (Faults::any() && group->late.Keep(group, cq, wc, solicited)) return;
  PutCompletion(group, cq, wc, solicited);
}

void PutCompletion(PollGroup* group, Cq* cq, const ibv_wc& wc, bool solicited) {
  if (group->open_cq != cq) {
    group->CloseCq();
    cq->lock.lock();
    group->open_cq = cq;
  }
  if (cq->dead) return;
  const uint32_t count = cq->count.load(std::memory_order_relaxed);
  const auto capacity = static_cast<uint32_t>(cq->ring.size());
  if (count == capacity) {
    KillLocked(cq);
    return;
  }
  uint32_t place = cq->first + count;
  if (place >= capacity) place -= capacity;
  cq->ring[place] = wc;
  cq->count.store(count + 1, std::memory_order_release);
  Notify(group, cq, solicited);
}

void PushNotification(PollGroup* group, Cq* cq) {
  CompChannel::From(cq->channel)
      ->events.Push(cq, /*quietly=*/group->collecting == cq->channel);
}

// What is in the queue already announces nothing by itself; what comes after
// this call does, since it takes the same lock.
void ArmCq(Cq* cq, Arming arming) {
  const std::lock_guard lock(cq->lock);
  // Asked for more before, it is not to get less.
  cq->arming = std::max(cq->arming, arming);
}

void PurgeCompletions(Cq* cq, uint32_t qp_number) {
  const std::lock_guard lock(cq->lock);
  const auto capacity = static_cast<uint32_t>(cq->ring.size());
  const uint32_t count = cq->count.load(std::memory_order_relaxed);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const ibv_wc wc = cq->ring[(cq->first + i) % capacity];
    if (wc.qp_num == qp_number) continue;
    cq->ring[(cq->first + kept++) % capacity] = wc;
  }
  cq->count.store(kept, std::memory_order_release);
}

void AttachQp(Cq* cq, Qp* qp) {
  if (qp->group != cq->group) cq->group->Follow(qp->group);
  const std::lock_guard lock(cq->lock);
  cq->qps.push_back(qp);
  if (qp->group == cq->group) return;
  cq->groups.push_back(qp->group);
  cq->has_groups.store(true, std::memory_order_release);
}

void DetachQp(Cq* cq, Qp* qp) {
  if (qp->group != cq->group) cq->group->Unfollow(qp->group);
  const std::lock_guard lock(cq->lock);
  cq->qps.erase(std::find(cq->qps.begin(), cq->qps.end(), qp));
  if (qp->group == cq->group) return;
  cq->groups.erase(std::find(cq->groups.begin(), cq->groups.end(), qp->group));
  cq->has_groups.store(!cq->groups.empty(), std::memory_order_release);
}

}  // namespace sluice::iwarp
