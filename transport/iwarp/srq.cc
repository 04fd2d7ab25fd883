// Shared receive queues [iwarp §4.7]. Each SEND takes the oldest receive, of
// whatever queue pair; one that finds none waits for it in its socket.
#include <algorithm>
#include <cerrno>

#include "transport/iwarp/calls.h"
#include "transport/iwarp/qp.h"

namespace sluice::iwarp {
namespace {

// The limit is told once, when fewer than that many are left.
void CheckLimit(Srq* srq) {
  if (srq->limit == 0 || srq->receives.count() >= srq->limit) return;
  srq->limit = 0;
  ibv_async_event event = {};
  event.element.srq = srq;
  event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
  PushAsyncEvent(srq->context, event);
}

// The next `count` of those that wait, for a receive each.
void WakeWaiting(Srq* srq, uint32_t count) {
  for (; count > 0 && !srq->waiting.empty(); --count) {
    Qp* qp = srq->waiting.front();
    srq->waiting.pop_front();
    qp->is_waiting = false;
    qp->group->WakeQp(qp->qp_num);
  }
}

void StopWaiting(Srq* srq, Qp* qp) {
  if (!qp->is_waiting) return;
  qp->is_waiting = false;
  std::erase(srq->waiting, qp);
}

}  // namespace

bool TakeShared(Srq* srq, Qp* qp, ReceiveEntry* entry, ibv_sge* sges) {
  const std::lock_guard lock(srq->lock);
  if (srq->receives.count() == 0) {
    if (qp->is_waiting) return false;
    qp->is_waiting = true;
    if (qp->rx.phase == Receiver::Phase::kWaiting) {
      srq->waiting.push_front(qp);
    } else {
      srq->waiting.push_back(qp);
    }
    return false;
  }
  StopWaiting(srq, qp);
  *entry = *srq->receives.Front();
  std::copy_n(entry->sges, entry->sge_count, sges);
  ++srq->receives.head;
  CheckLimit(srq);
  return true;
}

void LeaveShared(Srq* srq, Qp* qp) {
  const std::lock_guard lock(srq->lock);
  const bool had_turn =
      !qp->is_waiting && qp->rx.phase == Receiver::Phase::kWaiting;
  StopWaiting(srq, qp);
  if (had_turn && srq->receives.count() > 0) WakeWaiting(srq, 1);
}

ibv_srq* CreateSrq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  const ibv_srq_attr& wanted = attr->attr;
  if (wanted.max_wr < 1 || wanted.max_wr > kSrqWrMax ||
      wanted.max_sge > kSgeMax) {
    errno = EINVAL;
    return nullptr;
  }
  Device& device = Device::Get();
  if (device.srq_count.fetch_add(1) >= kSrqMax) {
    device.srq_count.fetch_sub(1);
    errno = ENOMEM;
    return nullptr;
  }
  auto* srq = new Srq();
  srq->context = pd->context;
  srq->srq_context = attr->srq_context;
  srq->pd = pd;
  pthread_mutex_init(&srq->mutex, nullptr);
  pthread_cond_init(&srq->cond, nullptr);
  srq->receives.Init(wanted.max_wr, wanted.max_sge);
  Pd::From(pd)->users.fetch_add(1);
  return srq;
}

int DestroySrq(ibv_srq* raw) {
  Srq* srq = Srq::From(raw);
  {
    const std::lock_guard lock(srq->lock);
    if (srq->users != 0) return EBUSY;
  }
  Context::From(srq->context)
      ->async_events.Extract([srq](const ibv_async_event& event) {
        return event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED &&
               event.element.srq == srq;
      });
  pthread_mutex_lock(&srq->mutex);
  while (srq->events_completed != srq->delivered_async_events) {
    pthread_cond_wait(&srq->cond, &srq->mutex);
  }
  pthread_mutex_unlock(&srq->mutex);
  Pd::From(srq->pd)->users.fetch_sub(1);
  pthread_cond_destroy(&srq->cond);
  pthread_mutex_destroy(&srq->mutex);
  delete srq;
  Device::Get().srq_count.fetch_sub(1);
  return 0;
}

int ModifySrq(ibv_srq* raw, ibv_srq_attr* attr, int attr_mask) {
  Srq* srq = Srq::From(raw);
  if ((attr_mask & IBV_SRQ_MAX_WR) != 0) return EOPNOTSUPP;
  if ((attr_mask & IBV_SRQ_LIMIT) == 0) return 0;
  const std::lock_guard lock(srq->lock);
  if (attr->srq_limit > srq->receives.depth) return EINVAL;
  srq->limit = attr->srq_limit;
  CheckLimit(srq);
  return 0;
}

int QuerySrq(ibv_srq* raw, ibv_srq_attr* attr) {
  Srq* srq = Srq::From(raw);
  const std::lock_guard lock(srq->lock);
  attr->max_wr = srq->receives.depth;
  attr->max_sge = srq->receives.sge_max;
  attr->srq_limit = srq->limit;
  return 0;
}

int PostSrqRecv(ibv_srq* raw, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  Srq* srq = Srq::From(raw);
  int error = 0;
  const std::lock_guard lock(srq->lock);
  uint32_t posted = 0;
  for (; wr != nullptr; wr = wr->next) {
    error = srq->receives.Post(*wr);
    if (error != 0) break;
    ++posted;
  }
  if (error != 0) *bad_wr = wr;
  WakeWaiting(srq, posted);
  return error;
}

}  // namespace sluice::iwarp
