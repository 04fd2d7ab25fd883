// Moving the data of one request from queue pair to queue pair, and the
// late-payload fault.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/types/span.h"
#include "tests/support/fake_verbs_fabric.h"

namespace sluice::fake {
namespace {

std::byte* Pointer(uint64_t address) {
  return reinterpret_cast<std::byte*>(address);
}

bool MayUse(const Qp& qp, const Sges& sges, bool write, bool read_sink) {
  return std::all_of(sges.begin(), sges.end(), [&](const ibv_sge& sge) {
    return sge.length == 0 || FindLocal(qp, sge, write, read_sink) != nullptr;
  });
}

void Gather(const Sges& sges, std::byte* to) {
  for (const ibv_sge& sge : sges) {
    if (sge.length == 0) continue;
    std::memmove(to, Pointer(sge.addr), sge.length);
    to += sge.length;
  }
}

// Stops at the end of the shorter side.
void Scatter(absl::Span<const std::byte> from, const Sges& sges) {
  for (const ibv_sge& sge : sges) {
    const size_t length_bytes = std::min<size_t>(sge.length, from.size());
    if (length_bytes == 0) continue;
    std::memmove(Pointer(sge.addr), from.data(), length_bytes);
    from.remove_prefix(length_bytes);
  }
}

void LoadPayload(SendWr* wr) {
  if (!wr->payload.empty() || wr->length_bytes == 0) return;
  wr->payload.resize(wr->length_bytes);
  Gather(wr->sges, wr->payload.data());
}

bool IsSend(const SendWr& wr) {
  return wr.opcode != IBV_WR_RDMA_WRITE && wr.opcode != IBV_WR_RDMA_READ;
}

bool CanReach(const Qp& qp) {
  return qp.peer != nullptr && (qp.peer->live_state == IBV_QPS_RTR ||
                                qp.peer->live_state == IBV_QPS_RTS);
}

// The receiver's completion; a failed one takes its queue pair with it.
void CompleteReceive(Qp* qp, const RecvWr& receive, const SendWr& wr,
                     ibv_wc_status status) {
  CqEntry entry;
  entry.freed_receives = 1;
  entry.wc.wr_id = receive.wr_id;
  entry.wc.status = status;
  entry.wc.opcode = status == IBV_WC_SUCCESS ? IBV_WC_RECV : IBV_WC_DRIVER3;
  entry.wc.byte_len = wr.length_bytes;
  entry.wc.qp_num = qp->qp_num;
  entry.wc.src_qp = qp->peer->qp_num;
  if (status == IBV_WC_SUCCESS && wr.opcode == IBV_WR_SEND_WITH_INV) {
    entry.wc.wc_flags = IBV_WC_WITH_INV;
    entry.wc.invalidated_rkey = wr.imm_or_rkey;
  } else if (status == IBV_WC_SUCCESS && wr.opcode == IBV_WR_SEND_WITH_IMM) {
    entry.wc.wc_flags = IBV_WC_WITH_IMM;
    entry.wc.imm_data = wr.imm_or_rkey;
  }
  AddCompletion(Cq::From(qp->recv_cq), entry,
                wr.solicited || status != IBV_WC_SUCCESS);
  if (status != IBV_WC_SUCCESS) Fail(qp);
}

// No receive is posted: IB waits or gives up, iWARP breaks the connection.
std::optional<ibv_wc_status> NotReady(Qp* qp, SendWr* wr) {
  if (!wr->rnr_counted) {
    wr->rnr_counted = true;
    ++qp->fabric->rnr_count;
  }
  if (qp->options().iwarp) {
    Fail(qp->peer);
    return IBV_WC_REM_OP_ERR;
  }
  if (qp->rnr_retry == 7) return std::nullopt;
  return IBV_WC_RNR_RETRY_EXC_ERR;
}

std::optional<ibv_wc_status> Send(Qp* qp, SendWr* wr) {
  Qp* peer = qp->peer;
  if (peer->receives.empty()) return NotReady(qp, wr);
  const RecvWr receive = std::move(peer->receives.front());
  peer->receives.pop_front();
  uint64_t room_bytes = 0;
  for (const ibv_sge& sge : receive.sges) room_bytes += sge.length;
  if (room_bytes < wr->length_bytes) {
    CompleteReceive(peer, receive, *wr, IBV_WC_LOC_LEN_ERR);
    return IBV_WC_REM_INV_REQ_ERR;
  }
  if (!MayUse(*peer, receive.sges, /*write=*/true, /*read_sink=*/false)) {
    CompleteReceive(peer, receive, *wr, IBV_WC_LOC_PROT_ERR);
    return IBV_WC_REM_OP_ERR;
  }
  LoadPayload(wr);
  Scatter(wr->payload, receive.sges);
  CompleteReceive(peer, receive, *wr, IBV_WC_SUCCESS);
  return IBV_WC_SUCCESS;
}

// The peer's side of a wrong key, range or right.
ibv_wc_status RefuseAccess(Qp* qp) {
  ibv_async_event event = {};
  event.element.qp = qp->peer;
  event.event_type = IBV_EVENT_QP_ACCESS_ERR;
  PushAsyncEvent(qp->peer->device_context(), event);
  Fail(qp->peer);
  return IBV_WC_REM_ACCESS_ERR;
}

bool MayAccessPeer(const Qp& qp, const SendWr& wr) {
  const int access = wr.opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ
                                                   : IBV_ACCESS_REMOTE_WRITE;
  return wr.length_bytes == 0 ||
         FindRemote(*qp.peer, wr.rkey, wr.remote_address, wr.length_bytes,
                    access) != nullptr;
}

ibv_wc_status Write(Qp* qp, SendWr* wr) {
  if (!MayAccessPeer(*qp, *wr)) return RefuseAccess(qp);
  if (!wr->payload.empty()) {
    std::memmove(Pointer(wr->remote_address), wr->payload.data(),
                 wr->payload.size());
  } else {
    Gather(wr->sges, Pointer(wr->remote_address));
  }
  return IBV_WC_SUCCESS;
}

ibv_wc_status Read(Qp* qp, const SendWr& wr) {
  if (qp->max_rd_atomic == 0) return IBV_WC_LOC_QP_OP_ERR;
  if (wr.too_many_reads) {
    Fail(qp->peer);
    return IBV_WC_REM_INV_REQ_ERR;
  }
  if (!MayAccessPeer(*qp, wr)) return RefuseAccess(qp);
  Scatter({Pointer(wr.remote_address), wr.length_bytes}, wr.sges);
  return IBV_WC_SUCCESS;
}

std::optional<ibv_wc_status> Move(Qp* qp, SendWr* wr) {
  if (!CanReach(*qp)) return IBV_WC_RETRY_EXC_ERR;
  if (IsSend(*wr)) return Send(qp, wr);
  if (wr->opcode == IBV_WR_RDMA_WRITE) return Write(qp, wr);
  return Read(qp, *wr);
}

bool StartsWire(const Qp& qp, const SendWr& wr) {
  const FaultPlan& faults = qp.fabric->faults;
  return faults.late_bytes != 0 && wr.opcode == IBV_WR_RDMA_WRITE &&
         !wr.signalled && !wr.is_inline &&
         wr.length_bytes >= faults.late_bytes && IsOn(faults.late_side, qp);
}

// Done as far as the sender knows. A late WRITE keeps its payload where it is,
// others are copied as a device copies what is small.
void PutOnWire(Qp* qp, SendWr wr, bool is_late) {
  if (!is_late) LoadPayload(&wr);
  if (wr.signalled) ++qp->wire_unpolled;
  qp->wire.push_back(std::move(wr));
  qp->wire_countdown = qp->fabric->faults.late_operations;
}

bool PushesOut(const SendWr& wr) {
  return wr.opcode == IBV_WR_RDMA_READ ||
         (wr.opcode == IBV_WR_RDMA_WRITE && wr.signalled);
}

}  // namespace

std::optional<ibv_wc_status> Execute(Qp* qp, SendWr* wr) {
  const bool is_read = wr->opcode == IBV_WR_RDMA_READ;
  if (!wr->is_inline && !MayUse(*qp, wr->sges, is_read, is_read)) {
    return IBV_WC_LOC_PROT_ERR;
  }
  const bool is_late = StartsWire(*qp, *wr);
  if (qp->wire.empty() && !is_late) return Move(qp, wr);
  if (PushesOut(*wr)) {
    DrainWire(qp);
    if (qp->live_state == IBV_QPS_ERR) return IBV_WC_WR_FLUSH_ERR;
    if (!qp->wire.empty()) return std::nullopt;
    return Move(qp, wr);
  }
  if (!CanReach(*qp)) return IBV_WC_RETRY_EXC_ERR;
  if (is_late && !MayAccessPeer(*qp, *wr)) return RefuseAccess(qp);
  PutOnWire(qp, *wr, is_late);
  return IBV_WC_SUCCESS;
}

void DrainWire(Qp* qp) {
  if (qp->wire.empty()) return;
  while (!qp->wire.empty()) {
    const std::optional<ibv_wc_status> status = Move(qp, &qp->wire.front());
    if (!status.has_value()) return;  // waits for a receive: try again later
    qp->wire.pop_front();
    if (*status != IBV_WC_SUCCESS) return Fail(qp);
  }
  qp->wire_unpolled = 0;
  ++qp->wire_generation;
}

void AgeWires(Fabric* fabric, const Qp* qp, const Cq* cq, bool arming) {
  if (fabric->faults.late_bytes == 0) return;
  for (const auto& other : fabric->qps.all()) {
    if (other->wire.empty() || other->wire_unpolled > 0) continue;
    if (other.get() != qp && other->send_cq != cq && other->recv_cq != cq) {
      continue;
    }
    if (!arming && --other->wire_countdown > 0) continue;
    DrainWire(other.get());
  }
}

}  // namespace sluice::fake
