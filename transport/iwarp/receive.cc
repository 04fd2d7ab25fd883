// Receiving: the stream is cut into FPDUs. What is large is read from the
// socket to where it belongs, all else through the group's buffer, many FPDUs
// to one system call [iwarp §7.3].
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/check.h"
#include "core/clock.h"
#include "transport/iwarp/deadline.h"
#include "transport/iwarp/options.h"
#include "transport/iwarp/qp.h"

namespace sluice::iwarp {
namespace {

using Phase = Receiver::Phase;

// A SEND has come and there is no receive for it.
SegmentResult Wait(Qp* qp) {
  Receiver& rx = qp->rx;
  if (rx.phase != Phase::kWaiting) {
    rx.phase = Phase::kWaiting;
    rx.wait_deadline_nanos = DeadlineAfter(GetOptions().receive_wait);
  }
  // After that: a wait of nothing is over then.
  if (Clock::Real()->NowNanos() < rx.wait_deadline_nanos) {
    qp->group->SetDeadline(rx.wait_deadline_nanos);
    return SegmentResult::kWaiting;
  }
  return Refuse(qp, "no receive was posted for a SEND", kDdpNoBuffer,
                IBV_EVENT_QP_REQ_ERR);
}

// The header is complete: its payload may come.
SegmentResult StartPayload(Qp* qp) {
  Receiver& rx = qp->rx;
  const SegmentResult result = BeginSegment(qp);
  if (result == SegmentResult::kWaiting) return Wait(qp);
  if (result == SegmentResult::kFailed) return result;
  rx.wait_deadline_nanos = 0;
  rx.placed = 0;
  rx.payload_left = rx.header.payload_bytes();
  rx.trailer_bytes = FpduPad(rx.header.ulpdu_bytes) + kCrcBytes;
  rx.phase = rx.payload_left > 0 ? Phase::kPayload : Phase::kTrailer;
  return result;
}

void Hold(Qp* qp, const std::byte* from, uint32_t bytes) {
  SLUICE_DCHECK(bytes <= kHeldMax);
  std::memcpy(qp->rx.held.data(), from, bytes);
  qp->rx.held_bytes = bytes;
}

SegmentResult TakeHeader(Qp* qp, const std::byte* from, uint32_t bytes,
                         uint32_t* used) {
  Receiver& rx = qp->rx;
  TerminateReason reason;
  uint32_t needed = 0;
  switch (DecodeHeader(from, bytes, &rx.header, &needed, &reason)) {
    case HeaderResult::kShort:
      *used = 0;
      return SegmentResult::kTaken;
    case HeaderResult::kBad:
      rx.raw_header_bytes = FaultyHeaderBytes(from, bytes);
      std::memcpy(rx.raw_header.data(), from, rx.raw_header_bytes);
      return Refuse(qp, "a segment's header is wrong", reason,
                    IBV_EVENT_QP_FATAL,
                    /*with_header=*/rx.raw_header_bytes > 0);
    case HeaderResult::kComplete:
      break;
  }
  *used = needed;
  rx.raw_header_bytes = needed;
  std::memcpy(rx.raw_header.data(), from, needed);
  if (qp->crc) {
    rx.crc = Crc32c();
    rx.crc.Add(from, needed);
  }
  return StartPayload(qp);
}

SegmentResult TakeTrailer(Qp* qp, const std::byte* from) {
  Receiver& rx = qp->rx;
  if (qp->crc) {
    const uint32_t pad = rx.trailer_bytes - kCrcBytes;
    uint32_t value;
    std::memcpy(&value, from + pad, sizeof(value));
    rx.crc.Add(from, pad);
    if (value != rx.crc.value()) {
      return Refuse(qp, "an FPDU's checksum is wrong", kMpaCrc,
                    IBV_EVENT_QP_FATAL, /*with_header=*/false);
    }
  }
  rx.phase = Phase::kHeader;
  return EndSegment(qp);
}

// An FPDU, if all of it is there: most are, and need not go through the phases.
// False: it is not there, or not to be taken at once.
bool TakeWhole(Qp* qp, const std::byte* from, uint32_t bytes, uint32_t* used,
               SegmentResult* result) {
  Receiver& rx = qp->rx;
  // With a checksum it is looked at piece by piece, as it comes.
  if (qp->crc || bytes < kFpduLengthBytes) return false;
  const uint32_t whole = FpduBytes(Get16(from));
  if (bytes < whole) return false;
  if (TakeSimpleSend(qp, from)) {
    *used = whole;
    return true;
  }
  TerminateReason reason;
  uint32_t needed = 0;
  const HeaderResult decoded =
      DecodeHeader(from, whole, &rx.header, &needed, &reason);
  if (decoded != HeaderResult::kComplete) return false;
  rx.raw_header_bytes = needed;
  std::memcpy(rx.raw_header.data(), from, needed);
  *result = TakeSegment(qp, from + needed);
  *used = *result == SegmentResult::kWaiting ? needed : whole;
  if (*result == SegmentResult::kWaiting) *result = Wait(qp);
  return true;
}

// Takes what it can of these bytes; the last few may be held for later.
SegmentResult Parse(Qp* qp, const std::byte* from, uint32_t bytes) {
  Receiver& rx = qp->rx;
  SegmentResult result = SegmentResult::kTaken;
  while (bytes > 0 && result == SegmentResult::kTaken) {
    uint32_t used = 0;
    switch (rx.phase) {
      case Phase::kHeader:
        if (TakeWhole(qp, from, bytes, &used, &result)) break;
        result = TakeHeader(qp, from, bytes, &used);
        break;
      case Phase::kPayload:
        used = std::min(bytes, rx.payload_left);
        if (qp->crc) rx.crc.Add(from, used);
        result = Place(qp, from, used);
        if (result != SegmentResult::kTaken) return result;
        rx.payload_left -= used;
        if (rx.payload_left == 0) rx.phase = Phase::kTrailer;
        break;
      case Phase::kTrailer:
        if (bytes < rx.trailer_bytes) break;
        used = rx.trailer_bytes;
        result = TakeTrailer(qp, from);
        break;
      case Phase::kWaiting:
        SLUICE_CHECK(false);
    }
    if (used == 0 && result == SegmentResult::kTaken) {
      Hold(qp, from, bytes);
      return result;
    }
    from += used;
    bytes -= used;
  }
  if (result == SegmentResult::kWaiting) rx.backlog.assign(from, from + bytes);
  return result;
}

// Continues after a wait for a receive.
SegmentResult Resume(Qp* qp) {
  const SegmentResult result = StartPayload(qp);
  if (result != SegmentResult::kTaken) return result;
  const std::vector<std::byte> backlog = std::move(qp->rx.backlog);
  qp->rx.backlog.clear();
  return Parse(qp, backlog.data(), static_cast<uint32_t>(backlog.size()));
}

// What the other end says is of no interest any more.
ReceiveResult Discard(Qp* qp) {
  std::byte* waste = qp->group->buffer.data();
  for (int i = 0; i < 16; ++i) {
    const ssize_t got = recv(qp->fd, waste, kReceiveBuffer, MSG_DONTWAIT);
    if (got > 0) continue;
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      return ReceiveResult::kDrained;
    }
    CloseStream(qp);
    return ReceiveResult::kGone;
  }
  return ReceiveResult::kMore;
}

// The stream is over, by the peer's will (0) or not.
ReceiveResult End(Qp* qp, ssize_t got) {
  const bool between = qp->rx.phase == Phase::kHeader && qp->rx.held_bytes == 0;
  Failure failure;
  failure.what = got == 0 ? (between ? "the peer closed the connection"
                                     : "the connection ended in an FPDU")
                          : "the connection is lost";
  if (got < 0 && errno == EFAULT) {
    failure.what = "memory that is registered is not there";
    failure.async_event = IBV_EVENT_QP_ACCESS_ERR;
  }
  Fail(qp, failure);
  return ReceiveResult::kGone;
}

// Reads the payload to where it belongs, and a little of what is behind it.
ssize_t ReadDirectly(Qp* qp, iovec* pieces, int count, uint64_t direct_bytes,
                     std::byte* tail) {
  pieces[count] = {tail, kTail};
  msghdr message = {};
  message.msg_iov = pieces;
  message.msg_iovlen = static_cast<size_t>(count) + 1;
  const ssize_t got = recvmsg(qp->fd, &message, MSG_DONTWAIT);
  if (got > 0) {
    auto left = std::min(static_cast<uint64_t>(got), direct_bytes);
    Placed(qp, static_cast<uint32_t>(left));
    for (int i = 0; qp->crc && left > 0; ++i) {
      const size_t piece = std::min<uint64_t>(left, pieces[i].iov_len);
      qp->rx.crc.Add(static_cast<std::byte*>(pieces[i].iov_base), piece);
      left -= piece;
    }
  }
  return got;
}

// One system call, and what it brings. `wanted`: what it could have brought.
ssize_t ReadSome(Qp* qp, uint64_t* wanted, SegmentResult* result) {
  Receiver& rx = qp->rx;
  std::byte* buffer = qp->group->buffer.data();
  iovec pieces[kSgeMax + 1];
  uint64_t direct_bytes = 0;
  int count = 0;
  if (rx.phase == Phase::kPayload && rx.payload_left >= kDirectMin) {
    count = PlacesOf(qp, pieces, kSgeMax, &direct_bytes);
  }
  if (count > 0) {
    const ssize_t got =
        ReadDirectly(qp, pieces, count, direct_bytes, buffer + kHeldMax);
    *wanted = direct_bytes + kTail;
    if (got <= 0) return got;
    const auto direct = static_cast<uint32_t>(
        std::min(static_cast<uint64_t>(got), direct_bytes));
    rx.payload_left -= direct;
    if (rx.payload_left == 0) rx.phase = Phase::kTrailer;
    *result = Parse(qp, buffer + kHeldMax, static_cast<uint32_t>(got) - direct);
    return got;
  }
  const ssize_t got =
      recv(qp->fd, buffer + kHeldMax, kReceiveBuffer, MSG_DONTWAIT);
  *wanted = kReceiveBuffer;
  if (got <= 0) return got;
  // Right behind what was held, so that it is one stretch.
  const uint32_t held = rx.held_bytes;
  std::byte* start = buffer + kHeldMax - held;
  std::memcpy(start, rx.held.data(), held);
  rx.held_bytes = 0;
  *result = Parse(qp, start, static_cast<uint32_t>(got) + held);
  return got;
}

}  // namespace

ReceiveResult Receive(Qp* qp) {
  if (qp->fd < 0) return ReceiveResult::kGone;
  uint64_t budget = kReceiveBudget;
  while (true) {
    if (qp->live != QpState::kEstablished) return Discard(qp);
    SegmentResult result = SegmentResult::kTaken;
    uint64_t wanted = 0;
    uint64_t got = 0;
    if (qp->rx.phase == Phase::kWaiting) {
      result = Resume(qp);
    } else {
      const ssize_t read = ReadSome(qp, &wanted, &result);
      qp->group->LetGo();
      if (read < 0 && (errno == EAGAIN || errno == EINTR)) {
        ++qp->rx.empty_reads;
        return ReceiveResult::kDrained;
      }
      if (read <= 0) return End(qp, read);
      qp->rx.empty_reads = 0;
      got = static_cast<uint64_t>(read);
    }
    if (qp->fd < 0) return ReceiveResult::kGone;
    if (result == SegmentResult::kWaiting) return ReceiveResult::kWaiting;
    if (result == SegmentResult::kFailed) continue;  // discards
    if (got < wanted && !qp->rx.hung_up) return ReceiveResult::kDrained;
    if (got >= budget) return ReceiveResult::kMore;
    budget -= got;
  }
}

}  // namespace sluice::iwarp
