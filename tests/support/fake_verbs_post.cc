// ibv_post_send and ibv_post_recv: what a device refuses at once.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/types/span.h"
#include "tests/support/fake_verbs_calls.h"
#include "tests/support/fake_verbs_fabric.h"

namespace sluice::fake {
namespace {

constexpr uint64_t kMessageBytesMax = 1ULL << 31;

absl::Span<const ibv_sge> SgesOf(const ibv_sge* list, int count) {
  return {list, static_cast<size_t>(count)};
}

uint64_t TotalBytes(absl::Span<const ibv_sge> sges) {
  uint64_t total_bytes = 0;
  for (const ibv_sge& sge : sges) total_bytes += sge.length;
  return total_bytes;
}

// 0, or the errno of a request whose form the device does not take.
int ValidateSend(const Qp& qp, const ibv_send_wr& wr) {
  if (wr.num_sge < 0) return EINVAL;
  if (static_cast<uint32_t>(wr.num_sge) > qp.cap.max_send_sge) return EINVAL;
  const uint64_t total_bytes = TotalBytes(SgesOf(wr.sg_list, wr.num_sge));
  if (total_bytes > kMessageBytesMax) return EINVAL;
  const bool is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
  if (is_inline && total_bytes > qp.cap.max_inline_data) return EINVAL;
  if (!is_inline && wr.opcode != IBV_WR_RDMA_READ && wr.num_sge == 1 &&
      total_bytes <= qp.options().two_sges_up_to_bytes) {
    return EINVAL;
  }
  switch (wr.opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_RDMA_WRITE:
      return 0;
    case IBV_WR_SEND_WITH_INV:
      if (is_inline && !qp.options().inline_with_invalidate) return EINVAL;
      return qp.options().mem_mgt_extensions ? 0 : EINVAL;
    case IBV_WR_RDMA_READ:
      return is_inline || wr.num_sge > qp.options().max_sge_rd ? EINVAL : 0;
    default:
      return EINVAL;
  }
}

SendWr Convert(const Qp& qp, const ibv_send_wr& wr) {
  const auto sges = SgesOf(wr.sg_list, wr.num_sge);
  SendWr send;
  send.wr_id = wr.wr_id;
  send.opcode = wr.opcode;
  send.signalled = qp.signal_all || (wr.send_flags & IBV_SEND_SIGNALED) != 0;
  send.solicited = (wr.send_flags & IBV_SEND_SOLICITED) != 0;
  send.is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
  send.imm_or_rkey =
      wr.opcode == IBV_WR_SEND_WITH_INV ? wr.invalidate_rkey : wr.imm_data;
  if (wr.opcode == IBV_WR_RDMA_WRITE || wr.opcode == IBV_WR_RDMA_READ) {
    send.remote_address = wr.wr.rdma.remote_addr;
    send.rkey = wr.wr.rdma.rkey;
  }
  send.length_bytes = static_cast<uint32_t>(TotalBytes(sges));
  if (!send.is_inline) {
    send.sges.assign(sges.begin(), sges.end());
    return send;
  }
  send.payload.reserve(send.length_bytes);
  for (const ibv_sge& sge : sges) {
    const auto* data = reinterpret_cast<const std::byte*>(sge.addr);
    send.payload.insert(send.payload.end(), data, data + sge.length);
  }
  return send;
}

int PostOneSend(Qp* qp, const ibv_send_wr& wr) {
  if (qp->live_state != IBV_QPS_RTS && qp->live_state != IBV_QPS_ERR) {
    return EINVAL;
  }
  const int error = ValidateSend(*qp, wr);
  if (error != 0) return error;
  if (qp->outstanding_sends == qp->cap.max_send_wr) return ENOMEM;
  ++qp->outstanding_sends;
  qp->sends.push_back(Convert(*qp, wr));
  return 0;
}

int PostOneRecv(Qp* qp, const ibv_recv_wr& wr) {
  if (qp->live_state == IBV_QPS_RESET) return EINVAL;
  if (wr.num_sge < 0) return EINVAL;
  if (static_cast<uint32_t>(wr.num_sge) > qp->cap.max_recv_sge) return EINVAL;
  if (qp->outstanding_receives == qp->cap.max_recv_wr) return ENOMEM;
  ++qp->outstanding_receives;
  const auto sges = SgesOf(wr.sg_list, wr.num_sge);
  qp->receives.push_back(
      {.wr_id = wr.wr_id, .sges = Sges(sges.begin(), sges.end())});
  return 0;
}

// What was posted goes on; in the error state it is flushed.
void Proceed(Qp* qp) {
  if (qp->live_state == IBV_QPS_ERR) {
    Flush(qp);
  } else {
    Wake(qp);
    if (qp->peer != nullptr) Wake(qp->peer);  // it may wait for a receive
  }
  Settle(qp->fabric);
}

// Sends do not age what is on the wire: they join it.
void AgeWiresAtPost(Qp* qp) {
  const std::lock_guard lock(qp->fabric->mutex);
  AgeWires(qp->fabric, qp, nullptr, /*arming=*/false);
  Settle(qp->fabric);
}

template <typename Wr>
int Post(ibv_qp* raw, Wr* wr, Wr** bad_wr, int (*post_one)(Qp*, const Wr&)) {
  Qp* qp = Qp::From(raw);
  const std::lock_guard lock(qp->fabric->mutex);
  int error = qp->device_context()->removed ? EIO : 0;
  for (; wr != nullptr && error == 0; wr = wr->next) {
    error = post_one(qp, *wr);
    if (error != 0) break;
  }
  if (error != 0) *bad_wr = wr;
  Proceed(qp);
  return qp->options().negative_post_errno ? -error : error;
}

}  // namespace

int PostSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  return Post(qp, wr, bad_wr, &PostOneSend);
}

int PostRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  AgeWiresAtPost(Qp::From(qp));
  return Post(qp, wr, bad_wr, &PostOneRecv);
}

}  // namespace sluice::fake
