// The send queue: launching in order, finishing in order, completing, flushing.
#include <algorithm>

#include "tests/support/fake_verbs_fabric.h"
#include "transport/verbs/wc_opcode.h"

namespace sluice::fake {
namespace {

// With an error only wr_id, status and qp_num mean anything: the rest is
// nonsense, on purpose.
ibv_wc ErrorCompletion(const Qp& qp, uint64_t wr_id, ibv_wc_status status) {
  ibv_wc wc = {};
  wc.wr_id = wr_id;
  wc.status = status;
  wc.opcode = IBV_WC_DRIVER3;
  wc.byte_len = 0xdeadbeef;
  wc.qp_num = qp.qp_num;
  return wc;
}

void Complete(Qp* qp, const SendWr& wr, ibv_wc_status status) {
  if (status == IBV_WC_SUCCESS && !wr.signalled) {
    ++qp->unsignalled_done;
    return;
  }
  CqEntry entry;
  entry.wc = ErrorCompletion(*qp, wr.wr_id, status);
  if (status == IBV_WC_SUCCESS) {
    entry.wc.opcode = WcOpcodeOf(wr.opcode);
    entry.wc.byte_len = wr.length_bytes;
  }
  entry.freed_sends = 1 + qp->unsignalled_done;
  if (!qp->wire.empty()) entry.wire_generation = qp->wire_generation;
  qp->unsignalled_done = 0;
  AddCompletion(Cq::From(qp->send_cq), entry, status != IBV_WC_SUCCESS);
}

Clock::time_point DueTime(const Qp& qp) {
  const FaultPlan& faults = qp.fabric->faults;
  const Clock::time_point now = Clock::now();
  if (!IsOn(faults.hold_side, qp)) return now;
  if (faults.hold_sends) return Clock::time_point::max();
  return now + faults.delay;
}

// Puts requests on their way, in order, up to a READ that is too many.
void Launch(Qp* qp) {
  while (qp->launched_count < qp->sends.size()) {
    SendWr& wr = qp->sends[qp->launched_count];
    if (wr.opcode == IBV_WR_RDMA_READ && qp->max_rd_atomic != 0) {
      if (qp->reads_in_flight == qp->max_rd_atomic) return;
      ++qp->reads_in_flight;
      qp->reads_max = std::max(qp->reads_max, qp->reads_in_flight);
      wr.too_many_reads = qp->peer != nullptr &&
                          qp->reads_in_flight > qp->peer->max_dest_rd_atomic;
    }
    wr.due = DueTime(*qp);
    ++qp->launched_count;
    if (wr.due > Clock::now()) qp->fabric->delay_wakeup.notify_all();
  }
}

// iWARP acknowledges nothing: the sender of what the peer refuses has its
// completion already, and then loses the connection.
void Finish(Qp* qp, const SendWr& wr, ibv_wc_status status) {
  const bool is_refused =
      status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR ||
      status == IBV_WC_REM_OP_ERR || status == IBV_WC_RETRY_EXC_ERR;
  const bool is_unaware =
      qp->options().iwarp && is_refused && wr.opcode != IBV_WR_RDMA_READ;
  Complete(qp, wr, is_unaware ? IBV_WC_SUCCESS : status);
  if (status != IBV_WC_SUCCESS) Fail(qp);
}

}  // namespace

void Run(Qp* qp) {
  if (qp->wire_unpolled == 0 && qp->wire_countdown <= 0) DrainWire(qp);
  while (qp->live_state == IBV_QPS_RTS) {
    Launch(qp);
    if (qp->launched_count == 0) return;
    if (qp->sends.front().due > Clock::now()) return;
    const std::optional<ibv_wc_status> status = Execute(qp, &qp->sends.front());
    if (!status.has_value()) return;

    const SendWr wr = std::move(qp->sends.front());
    qp->sends.pop_front();
    --qp->launched_count;
    if (wr.opcode == IBV_WR_RDMA_READ && qp->reads_in_flight > 0) {
      --qp->reads_in_flight;
    }
    Finish(qp, wr, *status);
  }
}

void Flush(Qp* qp) {
  const FaultPlan& faults = qp->fabric->faults;
  const bool is_silent = faults.drop_flushes && IsOn(faults.drop_side, *qp);
  const std::deque<SendWr> sends = std::move(qp->sends);
  const std::deque<RecvWr> receives = std::move(qp->receives);
  qp->sends.clear();
  qp->receives.clear();
  qp->wire.clear();
  qp->wire_unpolled = 0;
  ++qp->wire_generation;
  qp->launched_count = 0;
  qp->reads_in_flight = 0;
  if (!is_silent) {
    for (const SendWr& wr : sends) Complete(qp, wr, IBV_WC_WR_FLUSH_ERR);
    for (const RecvWr& wr : receives) {
      CqEntry entry;
      entry.wc = ErrorCompletion(*qp, wr.wr_id, IBV_WC_WR_FLUSH_ERR);
      entry.freed_receives = 1;
      AddCompletion(Cq::From(qp->recv_cq), entry, /*solicited=*/true);
    }
  }
  if (qp->peer != nullptr) Wake(qp->peer);
  if (!qp->options().iwarp) return;
  if (qp->id->state == IdState::kConnected) CloseConnection(qp->id);
  if (qp->peer != nullptr) Fail(qp->peer);
}

}  // namespace sluice::fake
