// A DDP segment that has come in: what it may do, where its payload goes, what
// follows when it is complete [iwarp §2.3, §3]. Nothing in a header is believed
// before it is checked against what this side has registered, posted or asked
// for.
#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "core/log.h"
#include "transport/iwarp/qp.h"

namespace sluice::iwarp {
namespace {

// --- READ responses ---

// The READ that is answered first; null: an RTR, or none.
SendEntry* OldestRead(Qp* qp) {
  if (qp->outbound.count == 0) return nullptr;
  const uint64_t number = *qp->outbound.At(0);
  return number == kRtrRead ? nullptr
                            : qp->sends.At(static_cast<uint32_t>(number));
}

const ibv_sge* SinkOf(Qp* qp) {
  const auto number = static_cast<uint32_t>(*qp->outbound.At(0));
  const SendEntry* read = qp->sends.At(number);
  if (read->sge_count == 0) return nullptr;
  return qp->sends.SgesOf(number);
}

SegmentResult RefuseResponse(Qp* qp, SendEntry* read,
                             const TerminateReason& reason,
                             ibv_wc_status status, ibv_event_type event) {
  if (read != nullptr) read->status = status;
  return Refuse(qp, "an answer to a READ is not what was asked for", reason,
                event);
}

// It must name the sink that was asked for, go on where the last one ended, and
// end with the request's last byte.
SegmentResult BeginResponse(Qp* qp) {
  const SegmentHeader& header = qp->rx.header;
  const uint32_t bytes = header.payload_bytes();
  SendEntry* read = OldestRead(qp);
  if (read == nullptr) {
    if (qp->outbound.count > 0 && bytes == 0 && header.last) {
      return SegmentResult::kTaken;
    }
    return RefuseResponse(qp, read, kDdpTaggedStag, IBV_WC_BAD_RESP_ERR,
                          IBV_EVENT_QP_FATAL);
  }
  const ibv_sge* sink = SinkOf(qp);
  const uint32_t stag = sink == nullptr ? 0 : sink->lkey;
  const uint64_t to = sink == nullptr ? 0 : sink->addr;
  const uint32_t left = read->length_bytes - read->got_bytes;
  const bool right = header.stag == stag && header.to == to + read->got_bytes &&
                     bytes <= left && header.last == (bytes == left);
  if (!right) {
    return RefuseResponse(
        qp, read, header.stag == stag ? kDdpTaggedBounds : kDdpTaggedStag,
        IBV_WC_BAD_RESP_ERR, IBV_EVENT_QP_FATAL);
  }
  if (bytes == 0) return SegmentResult::kTaken;
  const AccessFault fault =
      CheckRange(qp, stag, header.to, bytes, IBV_ACCESS_LOCAL_WRITE);
  if (fault != AccessFault::kNone) {
    return RefuseResponse(qp, read, TaggedReason(fault), IBV_WC_LOC_PROT_ERR,
                          IBV_EVENT_QP_ACCESS_ERR);
  }
  return SegmentResult::kTaken;
}

void EndResponse(Qp* qp) {
  SendEntry* read = OldestRead(qp);
  if (read != nullptr) read->got_bytes += qp->rx.header.payload_bytes();
  if (!qp->rx.header.last) return;
  if (read != nullptr) read->state = SendState::kDone;
  qp->outbound.Pop();
  Retire(qp);
}

// --- WRITEs and READ requests ---

// The queue pair grants the right, and the region does.
AccessFault CheckPeer(Qp* qp, uint32_t key, uint64_t address, uint64_t bytes,
                      int right) {
  if ((qp->access_flags & right) == 0) return AccessFault::kRights;
  return CheckRange(qp, key, address, bytes, right);
}

SegmentResult BeginWrite(Qp* qp) {
  const SegmentHeader& header = qp->rx.header;
  const uint32_t bytes = header.payload_bytes();
  if (bytes == 0) return SegmentResult::kTaken;
  const AccessFault fault =
      CheckPeer(qp, header.stag, header.to, bytes, IBV_ACCESS_REMOTE_WRITE);
  if (fault != AccessFault::kNone) {
    return Refuse(qp, "a WRITE of the peer's reaches what it may not",
                  TaggedReason(fault), IBV_EVENT_QP_ACCESS_ERR);
  }
  return SegmentResult::kTaken;
}

SegmentResult BeginReadRequest(Qp* qp) {
  const SegmentHeader& header = qp->rx.header;
  if (header.msn != qp->rx.read_msn) {
    return Refuse(qp, "a READ request out of order", kDdpMsn,
                  IBV_EVENT_QP_REQ_ERR);
  }
  if (header.mo != 0 || !header.last) {
    return Refuse(qp, "a READ request in pieces", kDdpOffset,
                  IBV_EVENT_QP_REQ_ERR);
  }
  if (qp->inbound.full()) {
    return Refuse(qp, "more READ requests than agreed on", kRdmapStreamLost,
                  IBV_EVENT_QP_REQ_ERR);
  }
  if (header.read_bytes == 0) return SegmentResult::kTaken;
  const AccessFault fault =
      CheckPeer(qp, header.source_stag, header.source_to, header.read_bytes,
                IBV_ACCESS_REMOTE_READ);
  if (fault != AccessFault::kNone) {
    return Refuse(qp, "a READ of the peer's reaches what it may not",
                  ReadReason(fault), IBV_EVENT_QP_ACCESS_ERR);
  }
  return SegmentResult::kTaken;
}

void EndReadRequest(Qp* qp) {
  const SegmentHeader& header = qp->rx.header;
  ++qp->rx.read_msn;
  InboundRead* read = qp->inbound.Push();
  *read = InboundRead();
  read->sink_stag = header.sink_stag;
  read->sink_to = header.sink_to;
  read->source_stag = header.source_stag;
  read->source_to = header.source_to;
  read->bytes = header.read_bytes;
}

// --- SENDs ---

SegmentResult RefuseSend(Qp* qp, const char* what,
                         const TerminateReason& reason, ibv_wc_status status,
                         ibv_event_type event) {
  qp->rx.has_receive = false;
  CompleteReceive(qp, qp->rx.receive.wr_id, status, 0, false, 0);
  return Refuse(qp, what, reason, event);
}

// Takes the next receive for the message that begins.
SegmentResult TakeReceive(Qp* qp) {
  Receiver& rx = qp->rx;
  if (qp->shared_receives != nullptr) {
    if (!TakeShared(qp->shared_receives, qp, &rx.receive,
                    rx.receive_sges.data())) {
      return SegmentResult::kWaiting;
    }
  } else {
    ReceiveQueue& queue = qp->receives;
    if (queue.count() == 0) return SegmentResult::kWaiting;
    rx.receive = *queue.Front();
    std::copy_n(rx.receive.sges, rx.receive.sge_count, rx.receive_sges.begin());
    ++queue.head;
  }
  rx.has_receive = true;
  rx.message_bytes = rx.sge_index = rx.sge_offset = 0;
  for (uint32_t i = 0; i < rx.receive.sge_count; ++i) {
    const ibv_sge& sge = rx.receive_sges[i];
    if (sge.length == 0) continue;
    const AccessFault fault =
        CheckRange(qp, sge.lkey, sge.addr, sge.length, IBV_ACCESS_LOCAL_WRITE);
    if (fault == AccessFault::kNone) continue;
    return RefuseSend(qp, "a receive names memory that it may not", kDdpLocal,
                      IBV_WC_LOC_PROT_ERR, IBV_EVENT_QP_ACCESS_ERR);
  }
  return SegmentResult::kTaken;
}

SegmentResult BeginSend(Qp* qp) {
  Receiver& rx = qp->rx;
  if (rx.header.msn != rx.send_msn) {
    return Refuse(qp, "a SEND out of order", kDdpMsn, IBV_EVENT_QP_REQ_ERR);
  }
  if (rx.header.mo != (rx.has_receive ? rx.message_bytes : 0)) {
    return Refuse(qp, "a SEND with a hole", kDdpOffset, IBV_EVENT_QP_REQ_ERR);
  }
  if (!rx.has_receive) {
    const SegmentResult result = TakeReceive(qp);
    if (result != SegmentResult::kTaken) return result;
  }
  // MO has 32 bits, and so has a message: receives of more are not filled.
  const uint64_t end = uint64_t{rx.message_bytes} + rx.header.payload_bytes();
  if (end > std::min<uint64_t>(rx.receive.length_bytes, UINT32_MAX)) {
    return RefuseSend(qp, "a SEND is longer than its receive", kDdpTooLong,
                      IBV_WC_LOC_LEN_ERR, IBV_EVENT_QP_REQ_ERR);
  }
  return SegmentResult::kTaken;
}

SegmentResult EndSend(Qp* qp) {
  Receiver& rx = qp->rx;
  rx.message_bytes += rx.header.payload_bytes();
  if (!rx.header.last) return SegmentResult::kTaken;
  ++rx.send_msn;
  uint32_t invalidated = 0;
  if (Invalidates(rx.header.opcode)) {
    // Before the completion can be seen [iwarp §3.5].
    if (!Invalidate(qp, rx.header.stag, /*by_peer=*/true)) {
      return RefuseSend(qp, "a key to invalidate that is none",
                        kRdmapInvalidate, IBV_WC_LOC_PROT_ERR,
                        IBV_EVENT_QP_ACCESS_ERR);
    }
    invalidated = rx.header.stag;
  }
  rx.has_receive = false;
  CompleteReceive(qp, rx.receive.wr_id, IBV_WC_SUCCESS, rx.message_bytes,
                  IsSolicited(rx.header.opcode), invalidated);
  return SegmentResult::kTaken;
}

// Scatters over the receive's SGEs, calling put(memory, bytes) for each piece.
template <typename Put>
bool Scatter(Qp* qp, uint64_t bytes, Put put) {
  const Receiver& rx = qp->rx;
  uint32_t index = rx.sge_index;
  uint32_t offset = rx.sge_offset;
  while (bytes > 0) {
    const ibv_sge& sge = rx.receive_sges[index];
    const uint64_t piece = std::min<uint64_t>(bytes, sge.length - offset);
    if (piece > 0) {
      AccessFault fault;
      const Mr* mr = FindRange(qp, sge.lkey, sge.addr + offset, piece,
                               IBV_ACCESS_LOCAL_WRITE, &fault);
      if (mr == nullptr) return false;
      if (!put(mr->At(sge.addr + offset), piece)) return true;
    }
    bytes -= piece;
    ++index;
    offset = 0;
  }
  return true;
}

void AdvanceReceive(Receiver* rx, uint64_t bytes) {
  while (bytes > 0) {
    const ibv_sge& sge = rx->receive_sges[rx->sge_index];
    const uint64_t piece =
        std::min<uint64_t>(bytes, sge.length - rx->sge_offset);
    rx->sge_offset += static_cast<uint32_t>(piece);
    bytes -= piece;
    if (rx->sge_offset < sge.length) continue;
    ++rx->sge_index;
    rx->sge_offset = 0;
  }
}

// --- Terminate ---

// Only READs wait for the peer: the oldest is the one that it refused, if it
// refused any [iwarp §4.4].
SegmentResult EndTerminate(Qp* qp) {
  const TerminateReason reason = ReadTerminate(qp->rx.terminate.data());
  SLUICE_LOG(kInfo) << "the peer ended the stream" << KV("qp", qp->qp_num)
                    << KV("layer", static_cast<int>(reason.layer))
                    << KV("type", static_cast<int>(reason.type))
                    << KV("code", static_cast<int>(reason.code));
  SendEntry* read = OldestRead(qp);
  if (read != nullptr) {
    const bool access = reason.type == 1 && reason.layer != Layer::kMpa;
    read->status = access ? IBV_WC_REM_ACCESS_ERR : IBV_WC_REM_OP_ERR;
  }
  Failure failure;
  failure.what = "the peer sent a Terminate";
  failure.async_event = IBV_EVENT_QP_FATAL;
  Fail(qp, failure);
  return SegmentResult::kFailed;
}

void HearFirst(Qp* qp) {
  qp->rx.heard = true;
  qp->must_listen_first = false;
  if (!qp->tell_first_fpdu) return;
  qp->group->notes.push_back({qp->id_serial, Note::Kind::kFirstFpdu});
}

// The tagged region.
const Mr* FindTagged(Qp* qp, uint64_t address, uint64_t bytes) {
  const int access = qp->rx.header.opcode == Opcode::kWrite
                         ? IBV_ACCESS_REMOTE_WRITE
                         : IBV_ACCESS_LOCAL_WRITE;
  AccessFault fault;
  return FindRange(qp, qp->rx.header.stag, address, bytes, access, &fault);
}

}  // namespace

SegmentResult Refuse(Qp* qp, const char* what, const TerminateReason& reason,
                     ibv_event_type event, bool with_header) {
  Failure failure;
  failure.what = what;
  failure.terminate = &reason;
  failure.with_header = with_header;
  failure.async_event = event;
  Fail(qp, failure);
  return SegmentResult::kFailed;
}

SegmentResult BeginSegment(Qp* qp) {
  switch (qp->rx.header.opcode) {
    case Opcode::kWrite:
      return BeginWrite(qp);
    case Opcode::kReadRequest:
      return BeginReadRequest(qp);
    case Opcode::kReadResponse:
      return BeginResponse(qp);
    case Opcode::kSend:
    case Opcode::kSendInvalidate:
    case Opcode::kSendSolicited:
    case Opcode::kSendSolicitedInvalidate:
      return BeginSend(qp);
    case Opcode::kTerminate:
      return SegmentResult::kTaken;
  }
  return SegmentResult::kFailed;
}

SegmentResult Place(Qp* qp, const std::byte* from, uint32_t bytes) {
  Receiver& rx = qp->rx;
  bool placed = true;
  if (IsTagged(rx.header.opcode)) {
    const uint64_t address = rx.header.to + rx.placed;
    const Mr* mr = FindTagged(qp, address, bytes);
    placed = mr != nullptr;
    if (placed) std::memcpy(mr->At(address), from, bytes);
  } else if (IsSend(rx.header.opcode)) {
    placed = Scatter(qp, bytes, [&from](std::byte* to, uint64_t piece) {
      std::memcpy(to, from, piece);
      from += piece;
      return true;
    });
  } else if (rx.placed < rx.terminate.size()) {
    const uint32_t room =
        static_cast<uint32_t>(rx.terminate.size()) - rx.placed;
    std::memcpy(rx.terminate.data() + rx.placed, from, std::min(room, bytes));
  }
  if (!placed) {
    return Refuse(qp, "memory went while it was written to", kDdpTaggedStag,
                  IBV_EVENT_QP_ACCESS_ERR);
  }
  Placed(qp, bytes);
  return SegmentResult::kTaken;
}

int PlacesOf(Qp* qp, iovec* pieces, int pieces_max, uint64_t* bytes) {
  const Receiver& rx = qp->rx;
  *bytes = 0;
  if (IsTagged(rx.header.opcode)) {
    const uint64_t address = rx.header.to + rx.placed;
    const Mr* mr = FindTagged(qp, address, rx.payload_left);
    if (mr == nullptr) return 0;  // Place will say so
    pieces[0] = {mr->At(address), rx.payload_left};
    *bytes = rx.payload_left;
    return 1;
  }
  if (!IsSend(rx.header.opcode)) return 0;
  int count = 0;
  Scatter(qp, rx.payload_left, [&](std::byte* to, uint64_t piece) {
    pieces[count++] = {to, piece};
    *bytes += piece;
    return count < pieces_max;
  });
  return count;
}

void Placed(Qp* qp, uint32_t bytes) {
  qp->rx.placed += bytes;
  if (IsSend(qp->rx.header.opcode)) AdvanceReceive(&qp->rx, bytes);
}

SegmentResult EndSegment(Qp* qp) {
  if (!qp->rx.heard) HearFirst(qp);
  switch (qp->rx.header.opcode) {
    case Opcode::kWrite:
      break;
    case Opcode::kReadRequest:
      EndReadRequest(qp);
      break;
    case Opcode::kReadResponse:
      EndResponse(qp);
      break;
    case Opcode::kSend:
    case Opcode::kSendInvalidate:
    case Opcode::kSendSolicited:
    case Opcode::kSendSolicitedInvalidate:
      return EndSend(qp);
    case Opcode::kTerminate:
      return EndTerminate(qp);
  }
  return qp->live == QpState::kEstablished ? SegmentResult::kTaken
                                           : SegmentResult::kFailed;
}

bool TakeSimpleSend(Qp* qp, const std::byte* from) {
  Receiver& rx = qp->rx;
  ReceiveQueue& queue = qp->receives;
  const uint16_t control = Get16(from + 2);
  const bool solicited = control == Control(Opcode::kSendSolicited, true);
  const bool simple = solicited || control == Control(Opcode::kSend, true);
  if (!simple || rx.has_receive || queue.count() == 0) return false;
  const ReceiveEntry& receive = *queue.Front();
  constexpr uint32_t kUlpduMin = kUntaggedHeaderBytes - kFpduLengthBytes;
  const uint32_t ulpdu_bytes = Get16(from);
  const bool right = ulpdu_bytes >= kUlpduMin &&
                     Get32(from + 8) == kQueueSend &&
                     Get32(from + 12) == rx.send_msn && Get32(from + 16) == 0;
  const uint32_t bytes = ulpdu_bytes - kUlpduMin;
  if (!right || receive.sge_count != 1 || bytes > receive.length_bytes) {
    return false;
  }
  const ibv_sge& sge = *receive.sges;
  AccessFault fault;
  const Mr* mr = FindRange(qp, sge.lkey, sge.addr, sge.length,
                           IBV_ACCESS_LOCAL_WRITE, &fault);
  if (mr == nullptr) return false;
  std::memcpy(mr->At(sge.addr), from + kUntaggedHeaderBytes, bytes);
  if (!rx.heard) HearFirst(qp);
  ++queue.head;
  ++rx.send_msn;
  CompleteReceive(qp, receive.wr_id, IBV_WC_SUCCESS, bytes, solicited, 0);
  return true;
}

SegmentResult TakeSegment(Qp* qp, const std::byte* payload) {
  SegmentResult result = BeginSegment(qp);
  if (result != SegmentResult::kTaken) return result;
  qp->rx.wait_deadline_nanos = 0;
  qp->rx.placed = 0;
  const uint32_t bytes = qp->rx.header.payload_bytes();
  if (bytes > 0) result = Place(qp, payload, bytes);
  return result == SegmentResult::kTaken ? EndSegment(qp) : result;
}

}  // namespace sluice::iwarp
