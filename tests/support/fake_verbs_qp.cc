// Making, changing, querying and destroying queue pairs; the two work lists.
#include "tests/support/fake_verbs_qp.h"

#include <algorithm>
#include <cerrno>

#include "tests/support/fake_verbs_calls.h"
#include "tests/support/fake_verbs_fabric.h"

namespace sluice::fake {
namespace {

bool FitsDevice(const ibv_qp_cap& cap, const FakeDeviceOptions& options) {
  const auto max_wr = static_cast<uint32_t>(options.max_qp_wr);
  const auto max_sge = static_cast<uint32_t>(options.max_sge);
  return cap.max_send_wr <= max_wr && cap.max_recv_wr <= max_wr &&
         cap.max_send_sge <= max_sge && cap.max_recv_sge <= max_sge &&
         cap.max_inline_data <= options.max_inline_bytes;
}

// 0, or the errno that refuses the queue pair.
int Validate(const Id& id, const ibv_pd* pd, const ibv_qp_init_attr& attr) {
  if (id.verbs == nullptr || id.qp != nullptr) return EINVAL;
  if (id.device_context()->removed) return EIO;
  if (pd == nullptr || pd->context != id.verbs) return EINVAL;
  if (attr.qp_type != IBV_QPT_RC || attr.srq != nullptr) return EINVAL;
  if (attr.send_cq == nullptr || attr.send_cq->context != id.verbs) {
    return EINVAL;
  }
  if (attr.recv_cq == nullptr || attr.recv_cq->context != id.verbs) {
    return EINVAL;
  }
  return FitsDevice(attr.cap, id.device_context()->options()) ? 0 : EINVAL;
}

bool IsLegal(ibv_qp_state from, ibv_qp_state to) {
  switch (to) {
    case IBV_QPS_RESET:
    case IBV_QPS_ERR:
      return true;
    case IBV_QPS_INIT:
      return from == IBV_QPS_RESET || from == IBV_QPS_INIT;
    case IBV_QPS_RTR:
      return from == IBV_QPS_INIT;
    case IBV_QPS_RTS:
      return from == IBV_QPS_RTR || from == IBV_QPS_RTS;
    default:
      return false;
  }
}

// Forgets all work without completions.
void Reset(Qp* qp) {
  qp->sends.clear();
  qp->receives.clear();
  qp->wire.clear();
  qp->wire_unpolled = 0;
  ++qp->wire_generation;
  qp->launched_count = 0;
  qp->reads_in_flight = 0;
  qp->outstanding_sends = 0;
  qp->outstanding_receives = 0;
  qp->unsignalled_done = 0;
  qp->live_state = IBV_QPS_RESET;
}

void RemoveFrom(std::deque<Qp*>* list, const Qp* qp) {
  list->erase(std::remove(list->begin(), list->end(), qp), list->end());
}

// What the peer notices of a queue pair that is destroyed.
void Unlink(Qp* qp) {
  if (qp->options().iwarp && qp->id->state == IdState::kConnected) {
    CloseConnection(qp->id);
    if (qp->peer != nullptr) Fail(qp->peer);
  }
  if (qp->peer == nullptr) return;
  qp->peer->peer = nullptr;
  Wake(qp->peer);
}

}  // namespace

void Wake(Qp* qp) {
  if (qp->is_runnable) return;
  qp->is_runnable = true;
  qp->fabric->runnable.push_back(qp);
}

void Fail(Qp* qp) {
  if (qp->live_state == IBV_QPS_ERR || qp->live_state == IBV_QPS_RESET) return;
  qp->live_state = IBV_QPS_ERR;
  if (qp->is_failing) return;
  qp->is_failing = true;
  qp->fabric->failing.push_back(qp);
}

void Settle(Fabric* fabric) {
  for (;;) {
    if (!fabric->failing.empty()) {
      Qp* qp = fabric->failing.front();
      fabric->failing.pop_front();
      qp->is_failing = false;
      Flush(qp);
    } else if (!fabric->runnable.empty()) {
      Qp* qp = fabric->runnable.front();
      fabric->runnable.pop_front();
      qp->is_runnable = false;
      Run(qp);
    } else {
      return;
    }
  }
}

int CreateQp(rdma_cm_id* raw, ibv_pd* pd, ibv_qp_init_attr* attr) {
  Id* id = Id::From(raw);
  Fabric* fabric = id->fabric;
  const std::lock_guard lock(fabric->mutex);
  const int error = Validate(*id, pd, *attr);
  if (error != 0) return CmResult(error);

  Qp* qp = fabric->qps.Add(std::make_unique<Qp>());
  qp->context = id->verbs;
  qp->qp_context = attr->qp_context;
  qp->pd = pd;
  qp->send_cq = attr->send_cq;
  qp->recv_cq = attr->recv_cq;
  qp->qp_num = fabric->next_qp_num++;
  qp->qp_type = IBV_QPT_RC;
  qp->state = IBV_QPS_INIT;
  qp->live_state = IBV_QPS_INIT;
  qp->fabric = fabric;
  qp->id = id;
  qp->is_passive = id->state == IdState::kRequested;
  qp->cap = attr->cap;
  qp->signal_all = attr->sq_sig_all != 0;
  fabric->qps_by_number[qp->qp_num] = qp;
  ++Pd::From(pd)->user_count;
  ++Cq::From(attr->send_cq)->qp_count;
  ++Cq::From(attr->recv_cq)->qp_count;

  id->qp = qp;
  id->pd = pd;
  id->send_cq = attr->send_cq;
  id->recv_cq = attr->recv_cq;
  id->qp_type = IBV_QPT_RC;
  if (Cq::From(attr->send_cq)->dead || Cq::From(attr->recv_cq)->dead) Fail(qp);
  Settle(fabric);
  return 0;
}

void DestroyQp(rdma_cm_id* raw) {
  Id* id = Id::From(raw);
  Fabric* fabric = id->fabric;
  const std::lock_guard lock(fabric->mutex);
  SLUICE_CHECK(id->qp != nullptr);
  Qp* qp = Qp::From(id->qp);
  SLUICE_CHECK(qp->unacked_async_events == 0);  // would hang for ever
  Unlink(qp);
  Settle(fabric);

  // Completions stay in the CQs, as on most devices, under a number that no
  // queue pair has any more.
  qp->device_context()->async_events.Extract(
      [qp](const ibv_async_event& event) {
        return (event.event_type == IBV_EVENT_QP_FATAL ||
                event.event_type == IBV_EVENT_QP_ACCESS_ERR) &&
               event.element.qp == qp;
      });
  RemoveFrom(&fabric->runnable, qp);
  RemoveFrom(&fabric->failing, qp);
  fabric->qps_by_number.erase(qp->qp_num);
  --Pd::From(qp->pd)->user_count;
  --Cq::From(qp->send_cq)->qp_count;
  --Cq::From(qp->recv_cq)->qp_count;
  id->qp = nullptr;
  fabric->qps.Remove(qp);
}

int ModifyQp(ibv_qp* raw, ibv_qp_attr* attr, int attr_mask) {
  Qp* qp = Qp::From(raw);
  const std::lock_guard lock(qp->fabric->mutex);
  if (qp->device_context()->removed) return EIO;
  if ((attr_mask & IBV_QP_STATE) != 0) {
    if (!IsLegal(qp->live_state, attr->qp_state)) return EINVAL;
    if (attr->qp_state == IBV_QPS_ERR) {
      Fail(qp);
      qp->live_state = IBV_QPS_ERR;  // from RESET too
    } else if (attr->qp_state == IBV_QPS_RESET) {
      Reset(qp);
    } else {
      qp->live_state = attr->qp_state;
    }
    qp->state = attr->qp_state;
  }
  if ((attr_mask & IBV_QP_RNR_RETRY) != 0) qp->rnr_retry = attr->rnr_retry;
  if ((attr_mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
    qp->max_rd_atomic = attr->max_rd_atomic;
  }
  if ((attr_mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) {
    qp->max_dest_rd_atomic = attr->max_dest_rd_atomic;
  }
  Wake(qp);
  Settle(qp->fabric);
  return 0;
}

int QueryQp(ibv_qp* raw, ibv_qp_attr* attr, int /*attr_mask*/,
            ibv_qp_init_attr* init_attr) {
  Qp* qp = Qp::From(raw);
  const std::lock_guard lock(qp->fabric->mutex);
  if (qp->device_context()->removed) return EIO;
  *attr = {};
  attr->qp_state = qp->live_state;
  attr->cur_qp_state = qp->live_state;
  attr->path_mtu = IBV_MTU_1024;
  attr->dest_qp_num = qp->peer == nullptr ? 0 : qp->peer->qp_num;
  attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  attr->cap = qp->cap;
  attr->max_rd_atomic = static_cast<uint8_t>(qp->max_rd_atomic);
  attr->max_dest_rd_atomic = static_cast<uint8_t>(qp->max_dest_rd_atomic);
  attr->port_num = 1;
  attr->rnr_retry = qp->rnr_retry;
  *init_attr = {};
  init_attr->qp_context = qp->qp_context;
  init_attr->send_cq = qp->send_cq;
  init_attr->recv_cq = qp->recv_cq;
  init_attr->cap = qp->cap;
  init_attr->qp_type = IBV_QPT_RC;
  init_attr->sq_sig_all = qp->signal_all ? 1 : 0;
  return 0;
}

}  // namespace sluice::fake
