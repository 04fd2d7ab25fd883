// Sending: the stream, which takes what encode.cc has made of the work
// requests, and what it leaves over.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/iwarp/deadline.h"
#include "transport/iwarp/faults.h"
#include "transport/iwarp/options.h"
#include "transport/iwarp/qp.h"

namespace sluice::iwarp {
namespace {

void FinishResponses(Qp* qp) {
  while (qp->tx.responses_encoded > 0 &&
         qp->inbound.At(0)->end <= qp->tx.sent) {
    qp->inbound.Pop();
    --qp->tx.responses_encoded;
  }
}

// Keeps what the socket did not take of the batch, from its `sent`th byte on.
void KeepRest(Qp* qp, uint64_t sent) {
  const SendBatch& batch = qp->group->batch;
  SendRest* rest = &qp->tx.rest;
  // The first time, for all times.
  rest->pieces.reserve(kBatchPieces);
  rest->keys.reserve(kBatchPieces);
  rest->text.reserve(kBatchText);
  rest->pieces.clear();
  rest->keys.clear();
  rest->next = 0;
  rest->text.resize(batch.text_used);
  size_t text_used = 0;
  for (size_t i = 0; i < static_cast<size_t>(batch.piece_count); ++i) {
    iovec piece = batch.pieces[i];
    if (sent >= piece.iov_len) {
      sent -= piece.iov_len;
      continue;
    }
    piece.iov_base = static_cast<std::byte*>(piece.iov_base) + sent;
    piece.iov_len -= sent;
    sent = 0;
    if (batch.keys[i] == 0) {
      std::byte* copy = rest->text.data() + text_used;
      std::memcpy(copy, piece.iov_base, piece.iov_len);
      text_used += piece.iov_len;
      piece.iov_base = copy;
    }
    rest->pieces.push_back(piece);
    rest->keys.push_back(batch.keys[i]);
  }
}

ssize_t SendPieces(int fd, iovec* pieces, size_t count) {
  if (count == 1) {
    return send(fd, pieces->iov_base, pieces->iov_len,
                MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  msghdr message = {};
  message.msg_iov = pieces;
  message.msg_iovlen = count;
  return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

// What send() said: the number of bytes taken, 0 when it was full, -1 when the
// stream is gone, and so is the queue pair then.
ssize_t OnSent(Qp* qp, ssize_t result) {
  if (result >= 0) {
    qp->tx.sent += static_cast<uint64_t>(result);
    return result;
  }
  if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS) return 0;
  Failure failure;
  failure.what = errno == EFAULT ? "memory that is registered is not there"
                                 : "the connection is lost";
  Fail(qp, failure);
  return -1;
}

// The memory that the rest still refers to; false when some is gone.
bool PinRest(Qp* qp) {
  const SendRest& rest = qp->tx.rest;
  for (size_t i = rest.next; i < rest.pieces.size(); ++i) {
    if (rest.keys[i] == 0) continue;
    if (qp->group->pins.Find(qp->memory, rest.keys[i]) == nullptr) return false;
  }
  return true;
}

// Sends what an earlier batch left over. True: all of it is gone.
bool SendRestOf(Qp* qp, bool* failed) {
  SendRest* rest = &qp->tx.rest;
  if (!PinRest(qp)) {
    Failure failure;
    failure.what = "memory was deregistered while it was being sent";
    failure.async_event = IBV_EVENT_QP_ACCESS_ERR;
    Fail(qp, failure);
    *failed = true;
    return false;
  }
  const ssize_t result = SendPieces(qp->fd, &rest->pieces[rest->next],
                                    rest->pieces.size() - rest->next);
  qp->group->pins.Release();
  const ssize_t sent = OnSent(qp, result);
  *failed = sent < 0;
  if (sent < 0) return false;
  auto left = static_cast<size_t>(sent);
  while (!rest->empty() && left >= rest->pieces[rest->next].iov_len) {
    left -= rest->pieces[rest->next++].iov_len;
  }
  if (rest->empty()) return true;
  iovec& piece = rest->pieces[rest->next];
  piece.iov_base = static_cast<std::byte*>(piece.iov_base) + left;
  piece.iov_len -= left;
  qp->group->SetBlocked(qp, true);
  return false;
}

// A fault injected: the connection breaks at a byte.
bool BreaksNow(Qp* qp) {
  const uint64_t limit = Faults::Get().break_after_sent();
  if (limit == 0 || qp->tx.sent < limit) return false;
  const linger reset = {1, 0};
  setsockopt(qp->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  Failure failure;
  failure.what = "a fault was asked for";
  Fail(qp, failure);
  return true;
}

bool HasNothingToSend(const Qp& qp) {
  return qp.tx.rest.empty() && qp.tx.current == Message::kNone &&
         qp.sends.next == qp.sends.tail &&
         qp.tx.responses_encoded == qp.inbound.count;
}

void AwaitInitiator(Qp* qp) {
  const bool idle = qp->sends.next == qp->sends.tail;
  if (idle || qp->listen_deadline_nanos != 0) return;
  qp->listen_deadline_nanos = DeadlineAfter(GetOptions().listen_first);
  qp->group->SetDeadline(qp->listen_deadline_nanos);
}

}  // namespace

bool Transmit(Qp* qp) {
  if (qp->fd < 0) return false;
  if (qp->live == QpState::kEstablished && HasNothingToSend(*qp)) return true;
  if (qp->live == QpState::kError) return true;  // lingers
  if (qp->tx.blocked) return true;
  for (int round = 0; round < kSendRounds; ++round) {
    if (!qp->tx.rest.empty()) {
      bool failed = false;
      const bool all = SendRestOf(qp, &failed);
      if (failed) return false;
      FinishResponses(qp);
      if (qp->live == QpState::kEstablished) Retire(qp);
      if (qp->fd < 0) return false;
      if (!all) return true;
    }
    if (qp->live == QpState::kClosing) {
      shutdown(qp->fd, SHUT_WR);
      return true;
    }
    if (qp->live != QpState::kEstablished) return true;
    if (qp->must_listen_first) {
      AwaitInitiator(qp);
      return true;
    }
    const uint32_t next = qp->sends.next;
    if (!FillBatch(qp)) return qp->fd >= 0;
    SendBatch* batch = &qp->group->batch;
    ssize_t result = 0;
    if (batch->piece_count > 0) {
      qp->tx.queued += batch->bytes;
      result = SendPieces(qp->fd, batch->pieces.data(),
                          static_cast<size_t>(batch->piece_count));
    }
    qp->group->pins.Release();
    const ssize_t sent = OnSent(qp, result);
    if (sent < 0) return false;
    const bool all = static_cast<uint64_t>(sent) == batch->bytes;
    if (!all) {
      KeepRest(qp, static_cast<uint64_t>(sent));
      qp->group->SetBlocked(qp, true);
    }
    FinishResponses(qp);
    Retire(qp);
    if (qp->fd < 0) return false;
    if (!all || (batch->piece_count == 0 && qp->sends.next == next)) {
      return true;
    }
    if (BreaksNow(qp)) return false;
  }
  qp->group->MarkReady(qp);
  return true;
}

bool OwnRest(Qp* qp) {
  SendRest* rest = &qp->tx.rest;
  if (!PinRest(qp)) {
    *rest = SendRest();
    return false;
  }
  SendRest own;
  for (size_t i = rest->next; i < rest->pieces.size(); ++i) {
    const auto* from = static_cast<const std::byte*>(rest->pieces[i].iov_base);
    own.text.insert(own.text.end(), from, from + rest->pieces[i].iov_len);
  }
  qp->group->pins.Release();
  own.pieces.push_back({own.text.data(), own.text.size()});
  own.keys.push_back(0);
  *rest = std::move(own);
  return true;
}

void SendTerminate(Qp* qp, const TerminateReason& reason, bool with_header) {
  // Within an FPDU it would be garbage.
  if (!qp->tx.rest.empty()) return;
  FillWithTerminate(qp, reason, with_header);
  SendPieces(qp->fd, qp->group->batch.pieces.data(), 1);
}

void SendReadyToReceive(Qp* qp, bool write, bool read) {
  if (!write && !read) return;
  FillWithReadyToReceive(qp, write);
  SendBatch* batch = &qp->group->batch;
  qp->tx.queued += batch->bytes;
  // The first bytes of a connection fit.
  (void)OnSent(qp, SendPieces(qp->fd, batch->pieces.data(), 1));
}

}  // namespace sluice::iwarp
