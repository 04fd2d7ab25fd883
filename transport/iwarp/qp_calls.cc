// Queue pairs as programs create, change and destroy them [iwarp §4.1].
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "transport/iwarp/calls.h"
#include "transport/iwarp/cm.h"
#include "transport/iwarp/qp.h"

namespace sluice::iwarp {
namespace {

bool ValidCap(const ibv_qp_cap& cap) {
  return cap.max_send_wr <= kQpWrMax && cap.max_recv_wr <= kQpWrMax &&
         cap.max_send_sge <= kSgeMax && cap.max_recv_sge <= kSgeMax &&
         cap.max_inline_data <= kInlineMax;
}

void InitSendQueue(Qp* qp) {
  SendQueue& queue = qp->sends;
  queue.depth = qp->cap.max_send_wr;
  const uint32_t size = std::bit_ceil(std::max(queue.depth, 1u));
  queue.mask = size - 1;
  queue.entries.resize(size);
  queue.sge_max = qp->cap.max_send_sge;
  if (queue.sge_max > 1) queue.sges.resize(size_t{size} * queue.sge_max);
  queue.inline_memory.resize(size_t{size} * qp->cap.max_inline_data);
}

ibv_qp_state UserState(const Qp& qp) {
  switch (qp.live) {
    case QpState::kIdle:
      return qp.initialised ? IBV_QPS_INIT : IBV_QPS_RESET;
    case QpState::kEstablished:
      return IBV_QPS_RTS;
    case QpState::kClosing:
      return IBV_QPS_SQD;
    case QpState::kError:
      break;
  }
  return IBV_QPS_ERR;
}

// Everything but the objects it belongs to as new.
void Reset(Qp* qp) {
  const GroupLock lock(qp->group.get());
  CloseStream(qp);
  FlushSends(qp);
  qp->receives.head = qp->receives.tail = 0;
  qp->sends.head = qp->sends.next = qp->sends.tail = 0;
  qp->tx = Transmitter();
  qp->rx = Receiver();
  qp->live = QpState::kIdle;
  qp->initialised = false;
  qp->access_flags = kPeersRights;
  qp->disconnect_told = false;
  qp->last_receive_told = false;
  qp->id_serial = 0;
}

}  // namespace

ibv_qp* CreateQp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  const bool has_receives = attr->srq == nullptr;
  if (attr->qp_type != IBV_QPT_RC || attr->send_cq == nullptr ||
      attr->recv_cq == nullptr || !ValidCap(attr->cap)) {
    errno = EINVAL;
    return nullptr;
  }
  Device& device = Device::Get();
  if (device.qp_count.fetch_add(1) >= kQpMax) {
    device.qp_count.fetch_sub(1);
    errno = ENOMEM;
    return nullptr;
  }
  auto qp = std::make_unique<Qp>();
  qp->context = pd->context;
  qp->qp_context = attr->qp_context;
  qp->pd = pd;
  qp->send_cq = attr->send_cq;
  qp->recv_cq = attr->recv_cq;
  qp->srq = attr->srq;
  qp->qp_type = attr->qp_type;
  qp->state = IBV_QPS_RESET;
  pthread_mutex_init(&qp->mutex, nullptr);
  pthread_cond_init(&qp->cond, nullptr);
  qp->group = Cq::From(attr->recv_cq)->group;
  qp->memory = &device.memory;
  qp->shared_receives = attr->srq == nullptr ? nullptr : Srq::From(attr->srq);
  qp->cap = attr->cap;
  qp->signal_all = attr->sq_sig_all != 0;
  InitSendQueue(qp.get());
  if (has_receives) {
    qp->receives.Init(qp->cap.max_recv_wr, qp->cap.max_recv_sge);
  } else {
    const std::lock_guard lock(qp->shared_receives->lock);
    ++qp->shared_receives->users;
  }
  Pd::From(pd)->users.fetch_add(1);
  AttachQp(Cq::From(attr->send_cq), qp.get());
  AttachQp(Cq::From(attr->recv_cq), qp.get());
  qp->qp_num = device.AddQp(qp.get());
  return qp.release();
}

int DestroyQp(ibv_qp* raw) {
  Qp* qp = Qp::From(raw);
  Device& device = Device::Get();
  // Nobody finds it by its number any more, then it has no stream.
  {
    const std::lock_guard lock(CmMutex());
    device.RemoveQp(qp->qp_num);
  }
  {
    const GroupLock lock(qp->group.get());
    CloseStream(qp);
    qp->live = QpState::kError;
    qp->group->late.Forget(qp);
  }
  qp->group->TellNotes();
  DetachQp(Cq::From(qp->send_cq), qp);
  DetachQp(Cq::From(qp->recv_cq), qp);
  PurgeCompletions(Cq::From(qp->send_cq), qp->qp_num);
  PurgeCompletions(Cq::From(qp->recv_cq), qp->qp_num);
  Context::From(qp->context)
      ->async_events.Extract([qp](const ibv_async_event& event) {
        const bool of_qp = event.event_type == IBV_EVENT_QP_FATAL ||
                           event.event_type == IBV_EVENT_QP_REQ_ERR ||
                           event.event_type == IBV_EVENT_QP_ACCESS_ERR ||
                           event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED;
        return of_qp && event.element.qp == qp;
      });
  pthread_mutex_lock(&qp->mutex);
  while (qp->events_completed != qp->delivered_async_events) {
    pthread_cond_wait(&qp->cond, &qp->mutex);
  }
  pthread_mutex_unlock(&qp->mutex);
  if (qp->shared_receives != nullptr) {
    const std::lock_guard lock(qp->shared_receives->lock);
    --qp->shared_receives->users;
  }
  Pd::From(qp->pd)->users.fetch_sub(1);
  pthread_cond_destroy(&qp->cond);
  pthread_mutex_destroy(&qp->mutex);
  delete qp;
  device.qp_count.fetch_sub(1);
  return 0;
}

// The connection manager alone makes a queue pair ready to send: it has the
// socket. RTR and RTS, which librdmacm's users ask for, change nothing.
int ModifyQp(ibv_qp* raw, ibv_qp_attr* attr, int attr_mask) {
  Qp* qp = Qp::From(raw);
  if ((attr_mask & IBV_QP_ACCESS_FLAGS) != 0) {
    const GroupLock lock(qp->group.get());
    qp->access_flags = static_cast<int>(attr->qp_access_flags);
  }
  if ((attr_mask & IBV_QP_STATE) == 0) return 0;
  switch (attr->qp_state) {
    case IBV_QPS_RESET:
      Reset(qp);
      break;
    case IBV_QPS_INIT: {
      const GroupLock lock(qp->group.get());
      // librdmacm's users may ask for it when it is connected already.
      if (qp->live == QpState::kIdle) FailIfCqIsDead(qp);
      if (qp->live == QpState::kError) return EINVAL;
      qp->initialised = true;
      break;
    }
    case IBV_QPS_RTR:
    case IBV_QPS_RTS: {
      const GroupLock lock(qp->group.get());
      if (qp->live == QpState::kError) return EINVAL;
      break;
    }
    case IBV_QPS_SQD:
      Disconnect(qp);
      break;
    case IBV_QPS_ERR:
      Abort(qp);
      break;
    default:
      return EINVAL;
  }
  qp->group->TellNotes();
  qp->state = attr->qp_state;
  return 0;
}

int QueryQp(ibv_qp* raw, ibv_qp_attr* attr, int /*attr_mask*/,
            ibv_qp_init_attr* init_attr) {
  Qp* qp = Qp::From(raw);
  std::memset(attr, 0, sizeof(*attr));
  {
    const GroupLock lock(qp->group.get());
    if (qp->live == QpState::kIdle) FailIfCqIsDead(qp);
    attr->qp_state = attr->cur_qp_state = UserState(*qp);
    attr->qp_access_flags = static_cast<unsigned>(qp->access_flags);
    attr->max_rd_atomic = static_cast<uint8_t>(qp->ord);
    attr->max_dest_rd_atomic = static_cast<uint8_t>(qp->ird);
  }
  attr->port_num = 1;
  attr->path_mtu = IBV_MTU_4096;
  attr->cap = qp->cap;
  qp->state = attr->qp_state;
  if (init_attr == nullptr) return 0;
  std::memset(init_attr, 0, sizeof(*init_attr));
  init_attr->qp_context = qp->qp_context;
  init_attr->send_cq = qp->send_cq;
  init_attr->recv_cq = qp->recv_cq;
  init_attr->srq = qp->srq;
  init_attr->cap = qp->cap;
  init_attr->qp_type = qp->qp_type;
  init_attr->sq_sig_all = qp->signal_all ? 1 : 0;
  return 0;
}

}  // namespace sluice::iwarp
