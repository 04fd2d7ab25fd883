// Posting work requests [iwarp §4.3]. A call's requests are sent at once, or,
// where calls come one by one, together at the next poll.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/iwarp/calls.h"
#include "transport/iwarp/options.h"
#include "transport/iwarp/qp.h"

namespace sluice::iwarp {
namespace {

// 0, or the errno that the work request is refused with.
int CheckSend(const Qp& qp, const ibv_send_wr& wr) {
  if (qp.sends.outstanding() == qp.sends.depth) return ENOMEM;
  if (wr.num_sge < 0 ||
      static_cast<uint32_t>(wr.num_sge) > qp.cap.max_send_sge) {
    return EINVAL;
  }
  const bool is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
  switch (wr.opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_RDMA_WRITE:
      break;
    case IBV_WR_RDMA_READ:
      if (wr.num_sge > kReadSgeMax || is_inline) return EINVAL;
      // It could never leave, and would hold up all behind it.
      if (qp.live == QpState::kEstablished && qp.ord == 0) return EINVAL;
      break;
    case IBV_WR_LOCAL_INV:
      if (wr.num_sge != 0) return EINVAL;
      break;
    default:
      return EINVAL;
  }
  uint64_t bytes = 0;
  for (int i = 0; i < wr.num_sge; ++i) bytes += wr.sg_list[i].length;
  if (bytes > kMessageBytesMax) return EINVAL;
  if (is_inline && bytes > qp.cap.max_inline_data) return EINVAL;
  return 0;
}

uint32_t KeyOf(const ibv_send_wr& wr) {
  switch (wr.opcode) {
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_LOCAL_INV:
      return wr.invalidate_rkey;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_READ:
      return wr.wr.rdma.rkey;
    default:
      return 0;
  }
}

void Append(Qp* qp, const ibv_send_wr& wr) {
  SendQueue& queue = qp->sends;
  const uint32_t place = queue.tail++ & queue.mask;
  SendEntry* entry = &queue.entries[place];
  const bool is_rdma =
      wr.opcode == IBV_WR_RDMA_WRITE || wr.opcode == IBV_WR_RDMA_READ;
  entry->wr_id = wr.wr_id;
  entry->remote_address = is_rdma ? wr.wr.rdma.remote_addr : 0;
  entry->key = KeyOf(wr);
  entry->got_bytes = 0;
  entry->opcode = wr.opcode;
  entry->state = SendState::kQueued;
  entry->status = IBV_WC_SUCCESS;
  entry->sge_count = static_cast<uint8_t>(wr.num_sge);
  entry->signalled = qp->signal_all || (wr.send_flags & IBV_SEND_SIGNALED) != 0;
  entry->solicited = (wr.send_flags & IBV_SEND_SOLICITED) != 0;
  entry->fenced = (wr.send_flags & IBV_SEND_FENCE) != 0;
  entry->is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
  uint32_t bytes = 0;
  if (entry->is_inline) {
    std::byte* to =
        queue.inline_memory.data() + size_t{place} * qp->cap.max_inline_data;
    for (int i = 0; i < wr.num_sge; ++i) {
      const ibv_sge& sge = wr.sg_list[i];
      std::memcpy(to + bytes, reinterpret_cast<const void*>(sge.addr),
                  sge.length);
      bytes += sge.length;
    }
  } else {
    ibv_sge* sges = wr.num_sge <= 1
                        ? &entry->sge
                        : &queue.sges[size_t{place} * queue.sge_max];
    for (int i = 0; i < wr.num_sge; ++i) {
      sges[i] = wr.sg_list[i];
      bytes += sges[i].length;
    }
  }
  entry->length_bytes = bytes;
  qp->posted_bytes += bytes;
}

// Whether what was just posted should wait for more: only where the last time
// between two polls, too, saw several calls, and not for ever.
bool ShouldWait(Qp* qp) {
  if (qp->post_serial != qp->group->serial) {
    qp->post_serial = qp->group->serial;
    qp->previous_posts = qp->posts;
    qp->posts = 0;
    qp->posted_bytes = 0;
  }
  ++qp->posts;
  if (qp->posts == 1 && qp->previous_posts <= 1) return false;
  // Another thread sleeps, and nobody else would come to send it.
  if (qp->group->is_waited_for()) return false;
  const bool waits = qp->sends.tail - qp->sends.next < kDeferredMax &&
                     qp->posted_bytes < kDeferredBytes;
  if (!waits) qp->posted_bytes = 0;
  return waits;
}

}  // namespace

int PostSend(ibv_qp* raw, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  Qp* qp = Qp::From(raw);
  std::vector<Note> told;
  int error = 0;
  {
    const GroupLock lock(qp->group.get());
    if (qp->live == QpState::kIdle) {
      FailIfCqIsDead(qp);
      *bad_wr = wr;
      return EINVAL;
    }
    for (; wr != nullptr; wr = wr->next) {
      error = CheckSend(*qp, *wr);
      if (error != 0) break;
      Append(qp, *wr);
      if (qp->live != QpState::kEstablished) FlushSends(qp);
    }
    if (error != 0) *bad_wr = wr;
    if (qp->live == QpState::kEstablished) {
      if (ShouldWait(qp)) {
        qp->group->MarkPosted(qp);
      } else if (!qp->tx.blocked) {
        Transmit(qp);
      }
    }
    if (!qp->group->notes.empty()) told.swap(qp->group->notes);
  }
  if (!told.empty()) DeliverNotes(told);
  return error;
}

int PostRecv(ibv_qp* raw, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  Qp* qp = Qp::From(raw);
  if (qp->shared_receives != nullptr) {
    *bad_wr = wr;
    return EINVAL;
  }
  bool resumes = false;
  int error = 0;
  {
    const GroupLock lock(qp->group.get());
    if (qp->live == QpState::kIdle) FailIfCqIsDead(qp);
    for (; wr != nullptr; wr = wr->next) {
      error = qp->receives.Post(*wr);
      if (error != 0) break;
      const bool dead =
          qp->live == QpState::kClosing || qp->live == QpState::kError;
      if (dead) FlushReceives(qp);
    }
    if (error != 0) *bad_wr = wr;
    resumes = qp->fd >= 0 && qp->rx.phase == Receiver::Phase::kWaiting;
    if (resumes) qp->group->MarkReady(qp);
  }
  if (resumes) qp->group->Wake();
  return error;
}

}  // namespace sluice::iwarp
