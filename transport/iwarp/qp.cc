// The life of a queue pair: its stream, its states, its completions and
// flushes [iwarp §4.1 to §4.4].
#include "transport/iwarp/qp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "core/check.h"
#include "core/log.h"
#include "transport/iwarp/deadline.h"
#include "transport/iwarp/options.h"
#include "transport/verbs/wc_opcode.h"

namespace sluice::iwarp {
namespace {

// Payload of a segment at most: what fits one of TCP's, in multiples of 8 so
// that only the last one of a message needs padding [iwarp §1.7].
uint32_t SegmentBytes(int fd) {
  uint32_t ulpdu = GetOptions().ulpdu_bytes;
  if (ulpdu == 0) {
    int emss = 0;
    socklen_t bytes = sizeof(emss);
    getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &emss, &bytes);
    ulpdu = Mulpdu(static_cast<uint32_t>(std::max(emss, 0)));
  }
  ulpdu = std::clamp(ulpdu, kMulpduMin, kMulpduMax);
  return (ulpdu - (kUntaggedHeaderBytes - kFpduLengthBytes)) & ~7u;
}

void TellDisconnected(Qp* qp) {
  if (qp->disconnect_told || qp->id_serial == 0) return;
  qp->disconnect_told = true;
  qp->group->notes.push_back({qp->id_serial, Note::Kind::kDisconnected});
}

void StartLinger(Qp* qp) {
  qp->linger_deadline_nanos = DeadlineAfter(GetOptions().linger);
  qp->group->SetDeadline(qp->linger_deadline_nanos);
}

// A new socket takes it whole.
bool SendFirst(int fd, absl::Span<const std::byte> text) {
  if (text.empty()) return true;
  const ssize_t sent =
      send(fd, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(text.size())) return true;
  if (sent >= 0) errno = ECONNRESET;
  return false;
}

// Unread data would make close() reset the connection, and what we sent last
// could be lost with it.
void DrainAndClose(int fd) {
  std::byte waste[4096];
  for (int i = 0; i < 256; ++i) {
    if (recv(fd, waste, sizeof(waste), MSG_DONTWAIT) <= 0) break;
  }
  close(fd);
}

}  // namespace

void ReceiveQueue::Init(uint32_t wanted, uint32_t sges_each) {
  depth = wanted;
  sge_max = sges_each;
  const uint32_t size = std::bit_ceil(std::max(wanted, 1u));
  mask = size - 1;
  entries.resize(size);
  if (sges_each > 1) sges.resize(size_t{size} * sges_each);
}

int ReceiveQueue::Post(const ibv_recv_wr& wr) {
  if (count() == depth) return ENOMEM;
  if (wr.num_sge < 0 || static_cast<uint32_t>(wr.num_sge) > sge_max) {
    return EINVAL;
  }
  const uint32_t place = tail & mask;
  ReceiveEntry& entry = entries[place];
  ibv_sge* copies =
      wr.num_sge <= 1 ? &entry.sge : &sges[size_t{place} * sge_max];
  entry.wr_id = wr.wr_id;
  entry.sge_count = static_cast<uint32_t>(wr.num_sge);
  entry.sges = copies;
  entry.length_bytes = 0;
  for (int i = 0; i < wr.num_sge; ++i) {
    copies[i] = wr.sg_list[i];
    entry.length_bytes += wr.sg_list[i].length;
  }
  ++tail;
  return 0;
}

// --- the stream ---

bool AttachStream(Qp* qp, int fd, const StreamOptions& options,
                  absl::Span<const std::byte> first) {
  const GroupLock lock(qp->group.get());
  FailIfCqIsDead(qp);
  if (qp->live != QpState::kIdle || qp->fd >= 0) {
    errno = EINVAL;
    return false;
  }
  qp->fd = fd;
  if (!qp->group->Add(qp)) {
    qp->fd = -1;
    return false;
  }
  if (!SendFirst(fd, first)) {
    qp->group->Remove(qp);
    qp->fd = -1;
    return false;
  }
  qp->live = QpState::kEstablished;
  qp->id_serial = options.id_serial;
  qp->crc = options.crc;
  qp->ird = options.ird;
  qp->ord = options.ord;
  qp->must_listen_first = options.passive;
  qp->tell_first_fpdu = options.tell_first_fpdu;
  qp->inbound.Init(std::max(options.ird, 1u));
  qp->outbound.Init(std::max(options.ord, 1u));
  qp->tx.segment_bytes = SegmentBytes(fd);
  SendReadyToReceive(qp, options.send_rtr_write, options.send_rtr_read);
  qp->group->Wake();
  return true;
}

void CloseStream(Qp* qp) {
  if (qp->fd < 0) return;
  qp->group->Remove(qp);
  DrainAndClose(qp->fd);
  qp->fd = -1;
  qp->linger_deadline_nanos = 0;
  qp->rx.wait_deadline_nanos = 0;
  TellDisconnected(qp);
  if (qp->live == QpState::kError) return;
  qp->live = QpState::kError;
  FlushSends(qp);
  FlushReceives(qp);
}

void Disconnect(Qp* qp) {
  const GroupLock lock(qp->group.get());
  if (qp->live != QpState::kEstablished) return;
  // Which may find that the end has come already.
  if (!Transmit(qp) || qp->live != QpState::kEstablished) return;
  qp->live = QpState::kClosing;
  if (qp->tx.rest.empty()) {
    shutdown(qp->fd, SHUT_WR);
  } else {
    OwnRest(qp);
  }
  FlushSends(qp);
  FlushReceives(qp);
  StartLinger(qp);
  qp->group->MarkReady(qp);
  qp->group->Wake();
}

void Abort(Qp* qp) {
  const GroupLock lock(qp->group.get());
  Failure failure;
  failure.what = "the error state was asked for";
  if (qp->live == QpState::kClosing) return;
  Fail(qp, failure);
}

void Fail(Qp* qp, const Failure& failure) {
  if (qp->live == QpState::kError) return;
  const bool can_speak = qp->live == QpState::kEstablished;
  qp->live = QpState::kError;
  SLUICE_LOG(kDebug) << "queue pair failed" << KV("qp", qp->qp_num)
                     << KV("why", failure.what);
  if (qp->fd >= 0 && failure.terminate != nullptr && can_speak) {
    SendTerminate(qp, *failure.terminate, failure.with_header);
    shutdown(qp->fd, SHUT_WR);
    StartLinger(qp);
    qp->group->MarkReady(qp);
    TellDisconnected(qp);
  } else {
    CloseStream(qp);
  }
  FlushSends(qp);
  FlushReceives(qp);
  if (failure.async_event >= 0) {
    PushQpEvent(qp, static_cast<ibv_event_type>(failure.async_event));
  }
}

// It waits for pins, our own among them.
bool Invalidate(Qp* qp, uint32_t key, bool by_peer) {
  qp->group->LetGo();
  return qp->memory->Invalidate(key, qp->pd, by_peer);
}

void FailIfCqIsDead(Qp* qp) {
  bool dead = false;
  qp->group->CloseCq();
  for (ibv_cq* raw : {qp->send_cq, qp->recv_cq}) {
    Cq* cq = Cq::From(raw);
    const std::lock_guard lock(cq->lock);
    dead |= cq->dead;
  }
  if (!dead) return;
  Failure failure;
  failure.what = "its completion queue overflowed";
  failure.async_event = IBV_EVENT_QP_FATAL;
  Fail(qp, failure);
}

// --- completions ---

void CompleteSend(Qp* qp, const SendEntry& entry, ibv_wc_status status) {
  ibv_wc wc = {};
  wc.wr_id = entry.wr_id;
  wc.status = status;
  wc.opcode = WcOpcodeOf(entry.opcode);
  wc.byte_len = entry.length_bytes;
  wc.qp_num = qp->qp_num;
  AddCompletion(qp->group.get(), Cq::From(qp->send_cq), wc,
                /*solicited=*/status != IBV_WC_SUCCESS);
}

void CompleteReceive(Qp* qp, uint64_t wr_id, ibv_wc_status status,
                     uint32_t bytes, bool solicited, uint32_t invalidated) {
  ibv_wc wc = {};
  wc.wr_id = wr_id;
  wc.status = status;
  wc.opcode = IBV_WC_RECV;
  wc.byte_len = bytes;
  wc.qp_num = qp->qp_num;
  if (invalidated != 0) {
    wc.wc_flags = IBV_WC_WITH_INV;
    wc.invalidated_rkey = invalidated;
  }
  AddCompletion(qp->group.get(), Cq::From(qp->recv_cq), wc,
                solicited || status != IBV_WC_SUCCESS);
}

void Retire(Qp* qp) {
  SendQueue& queue = qp->sends;
  while (queue.head != queue.next) {
    SendEntry* entry = queue.At(queue.head);
    if (entry->state == SendState::kSent && entry->opcode != IBV_WR_RDMA_READ &&
        entry->end <= qp->tx.sent) {
      entry->state = SendState::kDone;
    }
    if (entry->state == SendState::kFailed) {
      ++queue.head;
      CompleteSend(qp, *entry, entry->status);
      Failure failure;
      failure.what = "a work request could not be sent";
      failure.async_event = IBV_EVENT_QP_FATAL;
      Fail(qp, failure);
      return;
    }
    if (entry->state != SendState::kDone) return;
    if (entry->signalled) CompleteSend(qp, *entry, IBV_WC_SUCCESS);
    ++queue.head;
  }
}

void FlushSends(Qp* qp) {
  SendQueue& queue = qp->sends;
  for (; queue.head != queue.tail; ++queue.head) {
    const SendEntry* entry = queue.At(queue.head);
    CompleteSend(
        qp, *entry,
        entry->status == IBV_WC_SUCCESS ? IBV_WC_WR_FLUSH_ERR : entry->status);
  }
  queue.next = queue.head;
  qp->tx.current = Message::kNone;
  if (qp->live == QpState::kError) qp->tx.rest = SendRest();
}

void FlushReceives(Qp* qp) {
  if (qp->rx.has_receive) {
    qp->rx.has_receive = false;
    CompleteReceive(qp, qp->rx.receive.wr_id, IBV_WC_WR_FLUSH_ERR, 0, false, 0);
  }
  if (qp->shared_receives != nullptr) {
    LeaveShared(qp->shared_receives, qp);
    if (qp->last_receive_told) return;
    qp->last_receive_told = true;
    PushQpEvent(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
    return;
  }
  ReceiveQueue& queue = qp->receives;
  for (; queue.head != queue.tail; ++queue.head) {
    CompleteReceive(qp, queue.Front()->wr_id, IBV_WC_WR_FLUSH_ERR, 0, false, 0);
  }
}

void PushQpEvent(Qp* qp, ibv_event_type type) {
  ibv_async_event event = {};
  event.element.qp = qp;
  event.event_type = type;
  PushAsyncEvent(qp->context, event);
}

}  // namespace sluice::iwarp
