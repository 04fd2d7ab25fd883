// Sending: work requests and answers to READs become FPDUs, many of them one
// system call. Payloads are sent from where they are; headers, trailers and
// small payloads are copied side by side [iwarp §2, §3, §7.2].
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/check.h"
#include "core/clock.h"
#include "transport/iwarp/faults.h"
#include "transport/iwarp/options.h"
#include "transport/iwarp/qp.h"

namespace sluice::iwarp {
namespace {

// --- filling a batch ---

void Clear(SendBatch* batch) {
  batch->piece_count = 0;
  batch->bytes = 0;
  batch->text_used = 0;
}

void Unpin(SendBatch* batch) {
  for (Mr* mr : batch->pins) MrTable::Unpin(mr);
  batch->pins.clear();
}

// Room for `bytes` beside what was copied before; one piece while nothing else
// comes in between.
std::byte* AddText(SendBatch* batch, uint32_t bytes) {
  std::byte* at = batch->text.data() + batch->text_used;
  batch->text_used += bytes;
  batch->bytes += bytes;
  if (batch->piece_count > 0) {
    iovec& last = batch->pieces[static_cast<size_t>(batch->piece_count - 1)];
    if (static_cast<std::byte*>(last.iov_base) + last.iov_len == at) {
      last.iov_len += bytes;
      return at;
    }
  }
  batch->pieces[static_cast<size_t>(batch->piece_count)] = {at, bytes};
  batch->keys[static_cast<size_t>(batch->piece_count++)] = 0;
  return at;
}

void AddPayload(SendBatch* batch, std::byte* from, uint32_t bytes,
                uint32_t key) {
  if (bytes == 0) return;
  batch->pieces[static_cast<size_t>(batch->piece_count)] = {from, bytes};
  batch->keys[static_cast<size_t>(batch->piece_count++)] = key;
  batch->bytes += bytes;
}

bool HasRoom(const SendBatch& batch) {
  return batch.bytes < kBatchBytes &&
         batch.piece_count + kSgeMax + 2 <= kBatchPieces &&
         batch.text_used + kHeaderBytesMax + kCopyMax + 8 <= kBatchText;
}

// The rest of an FPDU whose header, `header_bytes` of it at `header`, and
// payload are there: zeros up to a multiple of four, and the checksum, which is
// 0 where none was agreed on.
void AddTrailer(SendBatch* batch, bool with_crc, Crc32c* crc,
                uint32_t ulpdu_bytes) {
  const uint32_t pad = FpduPad(ulpdu_bytes);
  std::byte* at = AddText(batch, pad + kCrcBytes);
  std::memset(at, 0, pad + kCrcBytes);
  if (!with_crc) return;
  crc->Add(at, pad);
  const uint32_t value = crc->value();
  std::memcpy(at + pad, &value, sizeof(value));
}

// --- work requests ---

// The memory of a work request, for this batch: pins[i] belongs to SGE i.
bool PinSges(Qp* qp, SendEntry* entry, const ibv_sge* sges, Mr** pins) {
  if (entry->is_inline) return true;
  SendBatch* batch = &qp->group->batch;
  for (uint32_t i = 0; i < entry->sge_count; ++i) {
    pins[i] = nullptr;
    if (sges[i].length == 0) continue;
    AccessFault fault;
    pins[i] = PinRange(qp->memory, qp->pd, sges[i].lkey, sges[i].addr,
                       sges[i].length, 0, &fault);
    if (pins[i] == nullptr) return false;
    batch->pins.push_back(pins[i]);
  }
  return true;
}

// Appends `bytes` of the work request from where the last segment ended.
void AddGathered(Qp* qp, const SendEntry& entry, const ibv_sge* sges,
                 Mr* const* pins, uint32_t bytes, Crc32c* crc) {
  SendBatch* batch = &qp->group->batch;
  const bool copied = bytes <= kCopyMax;
  if (entry.is_inline) {
    const auto number = (qp->sends.next - 1) & qp->sends.mask;
    std::byte* from =
        &qp->sends.inline_memory[size_t{number} * qp->cap.max_inline_data] +
        qp->tx.offset;
    std::memcpy(AddText(batch, bytes), from, bytes);
    if (qp->crc) crc->Add(from, bytes);
    return;
  }
  while (bytes > 0) {
    const ibv_sge& sge = sges[qp->tx.sge_index];
    const uint32_t piece = std::min(bytes, sge.length - qp->tx.sge_offset);
    if (piece > 0) {
      std::byte* from =
          pins[qp->tx.sge_index]->At(sge.addr) + qp->tx.sge_offset;
      if (copied) {
        std::memcpy(AddText(batch, piece), from, piece);
      } else {
        AddPayload(batch, from, piece, sge.lkey);
      }
      if (qp->crc) crc->Add(from, piece);
    }
    bytes -= piece;
    qp->tx.sge_offset += piece;
    if (qp->tx.sge_offset < sge.length) continue;
    ++qp->tx.sge_index;
    qp->tx.sge_offset = 0;
  }
}

Opcode SendOpcode(const SendEntry& entry) {
  const bool invalidates = entry.opcode == IBV_WR_SEND_WITH_INV;
  if (entry.solicited) {
    return invalidates ? Opcode::kSendSolicitedInvalidate
                       : Opcode::kSendSolicited;
  }
  return invalidates ? Opcode::kSendInvalidate : Opcode::kSend;
}

// One segment of a WRITE or SEND.
void EncodeSegment(Qp* qp, const SendEntry& entry, const ibv_sge* sges,
                   Mr* const* pins) {
  SendBatch* batch = &qp->group->batch;
  const uint32_t left = entry.length_bytes - qp->tx.offset;
  const uint32_t bytes = std::min(left, qp->tx.segment_bytes);
  const bool last = bytes == left;
  const bool is_write = entry.opcode == IBV_WR_RDMA_WRITE;
  const uint32_t header_bytes =
      is_write ? kTaggedHeaderBytes : kUntaggedHeaderBytes;
  std::byte* header = AddText(batch, header_bytes);
  if (is_write) {
    PutTagged(header, Opcode::kWrite, last, bytes, entry.key,
              entry.remote_address + qp->tx.offset);
  } else {
    PutUntagged(header, SendOpcode(entry), last, bytes,
                entry.opcode == IBV_WR_SEND_WITH_INV ? entry.key : 0,
                kQueueSend, qp->tx.send_msn, qp->tx.offset);
    if (last) ++qp->tx.send_msn;
  }
  Crc32c crc;
  if (qp->crc) crc.Add(header, header_bytes);
  AddGathered(qp, entry, sges, pins, bytes, &crc);
  AddTrailer(batch, qp->crc, &crc, header_bytes - kFpduLengthBytes + bytes);
  qp->tx.offset += bytes;
}

void EncodeReadRequest(Qp* qp, uint64_t number, uint32_t sink_stag,
                       uint64_t sink_to, uint32_t bytes, uint32_t source_stag,
                       uint64_t source_to) {
  SendBatch* batch = &qp->group->batch;
  std::byte* header = AddText(batch, kReadRequestBytes);
  PutReadRequest(header, qp->tx.read_msn++, sink_stag, sink_to, bytes,
                 source_stag, source_to);
  Crc32c crc;
  if (qp->crc) crc.Add(header, kReadRequestBytes);
  AddTrailer(batch, qp->crc, &crc, kReadRequestBytes - kFpduLengthBytes);
  *qp->outbound.Push() = number;
}

// A READ names its sink by the key of the region: what the peer sends there is
// checked against this request, not against rights [iwarp §3.4].
bool EncodeRead(Qp* qp, SendEntry* entry, const ibv_sge* sges) {
  const bool has_sink = entry->sge_count > 0;
  if (has_sink && entry->length_bytes > 0) {
    const AccessFault fault =
        CheckRange(qp->memory, qp->pd, sges->lkey, sges->addr, sges->length,
                   IBV_ACCESS_LOCAL_WRITE);
    if (fault != AccessFault::kNone) return false;
  }
  EncodeReadRequest(qp, qp->sends.next - 1, has_sink ? sges->lkey : 0,
                    has_sink ? sges->addr : 0, entry->length_bytes, entry->key,
                    entry->remote_address);
  return true;
}

// Encodes the current work request, as far as the batch has room. Returns false
// when it cannot be sent at all.
bool EncodeCurrent(Qp* qp) {
  SendQueue& queue = qp->sends;
  const uint32_t number = queue.next - 1;
  SendEntry* entry = queue.At(number);
  const ibv_sge* sges =
      queue.sges.data() + size_t{number & queue.mask} * qp->cap.max_send_sge;
  bool complete = true;
  if (entry->opcode == IBV_WR_RDMA_READ) {
    if (!EncodeRead(qp, entry, sges)) return false;
  } else if (entry->opcode == IBV_WR_LOCAL_INV) {
    if (!qp->memory->Invalidate(entry->key, qp->pd, /*by_peer=*/false)) {
      return false;
    }
  } else {
    Mr* pins[kSgeMax];
    if (!PinSges(qp, entry, sges, pins)) return false;
    do {
      EncodeSegment(qp, *entry, sges, pins);
      complete = qp->tx.offset == entry->length_bytes;
    } while (!complete && HasRoom(qp->group->batch));
  }
  if (!complete) return true;
  entry->state = SendState::kSent;
  entry->end = qp->tx.queued + qp->group->batch.bytes;
  qp->tx.current = Message::kNone;
  return true;
}

// The next work request may begin.
bool CanBegin(Qp* qp) {
  const SendQueue& queue = qp->sends;
  if (queue.next == queue.tail || qp->tx.stopped) return false;
  const SendEntry& entry = queue.entries[queue.next & queue.mask];
  // What is in the batch may use the memory.
  if (entry.opcode == IBV_WR_LOCAL_INV) {
    return qp->group->batch.piece_count == 0;
  }
  if (entry.opcode == IBV_WR_RDMA_READ) return qp->outbound.count < qp->ord;
  return !entry.fenced || qp->outbound.count == 0;
}

void Begin(Qp* qp) {
  qp->sends.At(qp->sends.next++)->state = SendState::kEncoding;
  qp->tx.current = Message::kSend;
  qp->tx.offset = qp->tx.sge_index = qp->tx.sge_offset = 0;
}

// --- answers ---

// Encodes the current answer, as far as the batch has room. Returns the reason
// why not, if the peer may not read there (any more).
AccessFault EncodeResponse(Qp* qp) {
  SendBatch* batch = &qp->group->batch;
  InboundRead* read = qp->inbound.At(qp->tx.responses_encoded);
  Mr* mr = nullptr;
  if (read->bytes > 0) {
    AccessFault fault;
    mr = PinRange(qp->memory, qp->pd, read->source_stag, read->source_to,
                  read->bytes, IBV_ACCESS_REMOTE_READ, &fault);
    if (mr == nullptr) return fault;
    batch->pins.push_back(mr);
  }
  do {
    const uint32_t left = read->bytes - read->offset;
    const uint32_t bytes = std::min(left, qp->tx.segment_bytes);
    std::byte* header = AddText(batch, kTaggedHeaderBytes);
    PutTagged(header, Opcode::kReadResponse, bytes == left, bytes,
              read->sink_stag, read->sink_to + read->offset);
    Crc32c crc;
    if (qp->crc) crc.Add(header, kTaggedHeaderBytes);
    if (bytes > 0) {
      std::byte* from = mr->At(read->source_to) + read->offset;
      if (bytes <= kCopyMax) {
        std::memcpy(AddText(batch, bytes), from, bytes);
      } else {
        AddPayload(batch, from, bytes, read->source_stag);
      }
      if (qp->crc) crc.Add(from, bytes);
    }
    AddTrailer(batch, qp->crc, &crc,
               kTaggedHeaderBytes - kFpduLengthBytes + bytes);
    read->offset += bytes;
  } while (read->offset < read->bytes && HasRoom(*batch));
  if (read->offset < read->bytes) return AccessFault::kNone;
  read->end = qp->tx.queued + batch->bytes;
  ++qp->tx.responses_encoded;
  qp->tx.current = Message::kNone;
  return AccessFault::kNone;
}

void FinishResponses(Qp* qp) {
  while (qp->tx.responses_encoded > 0 &&
         qp->inbound.At(0)->end <= qp->tx.sent) {
    qp->inbound.Pop();
    --qp->tx.responses_encoded;
  }
}

// --- the stream ---

// Picks the next message; answers and work requests take turns, and no message
// begins within another [iwarp §2.2].
bool PickMessage(Qp* qp) {
  if (qp->tx.current != Message::kNone) return true;
  const bool response = qp->tx.responses_encoded < qp->inbound.count;
  const bool send = CanBegin(qp);
  if (response && (!send || qp->tx.responses_in_row < kResponsesInRow)) {
    qp->tx.current = Message::kResponse;
    ++qp->tx.responses_in_row;
    return true;
  }
  qp->tx.responses_in_row = 0;
  if (send) Begin(qp);
  return send;
}

// Fills the group's batch. False: the queue pair failed.
bool FillBatch(Qp* qp) {
  SendBatch* batch = &qp->group->batch;
  Clear(batch);
  while (HasRoom(*batch) && PickMessage(qp)) {
    if (qp->tx.current == Message::kSend) {
      if (EncodeCurrent(qp)) continue;
      SendEntry* entry = qp->sends.At(qp->sends.next - 1);
      entry->state = SendState::kFailed;
      entry->status = IBV_WC_LOC_PROT_ERR;
      // Whatever of it has left already has left the stream in the middle of a
      // message, which is for the peer to find out: nothing follows.
      qp->tx.current = Message::kNone;
      qp->tx.stopped = true;
      return true;
    }
    const AccessFault fault = EncodeResponse(qp);
    if (fault == AccessFault::kNone) continue;
    const TerminateReason reason = ReadReason(fault);
    Unpin(batch);
    Failure failure;
    failure.what = "a READ of the peer's reaches what it may not";
    failure.terminate = &reason;
    failure.async_event = IBV_EVENT_QP_ACCESS_ERR;
    Fail(qp, failure);
    return false;
  }
  return true;
}

// Keeps what the socket did not take of the batch, from its `sent`th byte on.
void KeepRest(Qp* qp, uint64_t sent) {
  const SendBatch& batch = qp->group->batch;
  SendRest* rest = &qp->tx.rest;
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
  SendBatch* batch = &qp->group->batch;
  const SendRest& rest = qp->tx.rest;
  uint32_t last = 0;
  for (size_t i = rest.next; i < rest.pieces.size(); ++i) {
    if (rest.keys[i] == 0 || rest.keys[i] == last) continue;
    Mr* mr = qp->memory->Pin(rest.keys[i]);
    if (mr == nullptr) return false;
    batch->pins.push_back(mr);
    last = rest.keys[i];
  }
  return true;
}

// Sends what an earlier batch left over. True: all of it is gone.
bool SendRestOf(Qp* qp, bool* failed) {
  SendRest* rest = &qp->tx.rest;
  if (!PinRest(qp)) {
    Unpin(&qp->group->batch);
    Failure failure;
    failure.what = "memory was deregistered while it was being sent";
    failure.async_event = IBV_EVENT_QP_ACCESS_ERR;
    Fail(qp, failure);
    *failed = true;
    return false;
  }
  const ssize_t result = SendPieces(qp->fd, &rest->pieces[rest->next],
                                    rest->pieces.size() - rest->next);
  Unpin(&qp->group->batch);
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

void AwaitInitiator(Qp* qp) {
  const bool idle = qp->sends.next == qp->sends.tail;
  if (idle || qp->listen_deadline_nanos != 0) return;
  qp->listen_deadline_nanos =
      Clock::Real()->NowNanos() +
      absl::ToInt64Nanoseconds(GetOptions().listen_first);
  qp->group->SetDeadline(qp->listen_deadline_nanos);
}

}  // namespace

bool Transmit(Qp* qp) {
  if (qp->fd < 0) return false;
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
    // Also where one piece is good, the next is not, and nothing is sent.
    Unpin(batch);
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
    Unpin(&qp->group->batch);
    *rest = SendRest();
    return false;
  }
  SendRest own;
  for (size_t i = rest->next; i < rest->pieces.size(); ++i) {
    const auto* from = static_cast<const std::byte*>(rest->pieces[i].iov_base);
    own.text.insert(own.text.end(), from, from + rest->pieces[i].iov_len);
  }
  Unpin(&qp->group->batch);
  own.pieces.push_back({own.text.data(), own.text.size()});
  own.keys.push_back(0);
  *rest = std::move(own);
  return true;
}

void SendTerminate(Qp* qp, const TerminateReason& reason, bool with_header) {
  // Within an FPDU it would be garbage.
  if (!qp->tx.rest.empty()) return;
  SendBatch* batch = &qp->group->batch;
  Clear(batch);
  std::byte text[kTerminateMax];
  const uint32_t bytes = PutTerminate(
      text, reason, with_header ? qp->rx.raw_header.data() : nullptr,
      HeaderBytes(qp->rx.header.opcode));
  std::memcpy(AddText(batch, bytes), text, bytes);
  Crc32c crc;
  if (qp->crc) crc.Add(text, bytes);
  AddTrailer(batch, qp->crc, &crc, bytes - kFpduLengthBytes);
  SendPieces(qp->fd, batch->pieces.data(), 1);
}

void SendReadyToReceive(Qp* qp, bool write, bool read) {
  if (!write && !read) return;
  SendBatch* batch = &qp->group->batch;
  Clear(batch);
  if (write) {
    std::byte* header = AddText(batch, kTaggedHeaderBytes);
    PutTagged(header, Opcode::kWrite, /*last=*/true, 0, /*stag=*/1,
              /*offset=*/0);
    Crc32c crc;
    if (qp->crc) crc.Add(header, kTaggedHeaderBytes);
    AddTrailer(batch, qp->crc, &crc, kTaggedHeaderBytes - kFpduLengthBytes);
  } else {
    EncodeReadRequest(qp, kRtrRead, 1, 0, 0, 1, 0);
  }
  qp->tx.queued += batch->bytes;
  const ssize_t result = SendPieces(qp->fd, batch->pieces.data(), 1);
  // The first bytes of a connection fit.
  if (OnSent(qp, result) >= 0) return;
}

}  // namespace sluice::iwarp
