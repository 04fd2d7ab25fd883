// Work requests and answers to READs become FPDUs, as many as one system call
// takes: headers, trailers and small payloads are copied side by side, large
// payloads stay where they are [iwarp §2, §3, §7.2].
#include <algorithm>
#include <cstring>

#include "transport/iwarp/qp.h"

namespace sluice::iwarp {
namespace {

// --- filling a batch ---

void Clear(SendBatch* batch) {
  batch->piece_count = 0;
  batch->bytes = 0;
  batch->text_used = 0;
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

// The end of an FPDU at `to`, behind what `crc` has seen: zeros up to a
// multiple of four, and the checksum, which is 0 where none was agreed on.
void PutTrailer(std::byte* to, uint32_t pad, bool with_crc, Crc32c* crc) {
  Put32(to, 0);
  Put32(to + pad, 0);
  if (!with_crc) return;
  crc->Add(to, pad);
  const uint32_t value = crc->value();
  std::memcpy(to + pad, &value, sizeof(value));
}

void AddTrailer(SendBatch* batch, bool with_crc, Crc32c* crc,
                uint32_t ulpdu_bytes) {
  const uint32_t pad = FpduPad(ulpdu_bytes);
  PutTrailer(AddText(batch, pad + kCrcBytes), pad, with_crc, crc);
}

// Room for an FPDU whose header and payload, `bytes` together, are copied.
std::byte* AddFpdu(SendBatch* batch, uint32_t bytes) {
  return AddText(batch, FpduBytes(bytes - kFpduLengthBytes));
}

// When they are there.
void SealFpdu(std::byte* fpdu, uint32_t bytes, bool with_crc) {
  Crc32c crc;
  if (with_crc) crc.Add(fpdu, bytes);
  PutTrailer(fpdu + bytes, FpduPad(bytes - kFpduLengthBytes), with_crc, &crc);
}

// --- work requests ---

// The memory of a work request, for this batch: pins[i] belongs to SGE i.
bool PinSges(Qp* qp, SendEntry* entry, const ibv_sge* sges, Mr** pins) {
  if (entry->is_inline) return true;
  for (uint32_t i = 0; i < entry->sge_count; ++i) {
    if (sges[i].length == 0) continue;
    AccessFault fault;
    pins[i] =
        FindRange(qp, sges[i].lkey, sges[i].addr, sges[i].length, 0, &fault);
    if (pins[i] == nullptr) return false;
  }
  return true;
}

// Calls put(memory, bytes, key) for each piece of the next `bytes` of the work
// request.
template <typename Put>
void Gather(Qp* qp, const ibv_sge* sges, Mr* const* pins, uint32_t bytes,
            Put put) {
  while (bytes > 0) {
    const ibv_sge& sge = sges[qp->tx.sge_index];
    const uint32_t piece = std::min(bytes, sge.length - qp->tx.sge_offset);
    if (piece > 0) {
      put(pins[qp->tx.sge_index]->At(sge.addr) + qp->tx.sge_offset, piece,
          sge.lkey);
    }
    bytes -= piece;
    qp->tx.sge_offset += piece;
    if (qp->tx.sge_offset < sge.length) continue;
    ++qp->tx.sge_index;
    qp->tx.sge_offset = 0;
  }
}

// Copies the next `bytes` of the work request to `to`.
void CopyPayload(Qp* qp, const SendEntry& entry, const ibv_sge* sges,
                 Mr* const* pins, uint32_t bytes, std::byte* to) {
  if (entry.is_inline) {
    const auto number = (qp->sends.next - 1) & qp->sends.mask;
    const std::byte* from =
        &qp->sends.inline_memory[size_t{number} * qp->cap.max_inline_data];
    std::memcpy(to, from + qp->tx.offset, bytes);
    return;
  }
  Gather(qp, sges, pins, bytes,
         [&to](const std::byte* from, uint32_t piece, uint32_t /*key*/) {
           std::memcpy(to, from, piece);
           to += piece;
         });
}

Opcode SendOpcode(const SendEntry& entry) {
  const bool invalidates = entry.opcode == IBV_WR_SEND_WITH_INV;
  if (entry.solicited) {
    return invalidates ? Opcode::kSendSolicitedInvalidate
                       : Opcode::kSendSolicited;
  }
  return invalidates ? Opcode::kSendInvalidate : Opcode::kSend;
}

void PutSegmentHeader(Qp* qp, const SendEntry& entry, uint32_t bytes, bool last,
                      std::byte* to) {
  if (entry.opcode == IBV_WR_RDMA_WRITE) {
    PutTagged(to, Opcode::kWrite, last, bytes, entry.key,
              entry.remote_address + qp->tx.offset);
    return;
  }
  PutUntagged(to, SendOpcode(entry), last, bytes,
              entry.opcode == IBV_WR_SEND_WITH_INV ? entry.key : 0, kQueueSend,
              qp->tx.send_msn, qp->tx.offset);
  if (last) ++qp->tx.send_msn;
}

// One segment of a WRITE or SEND.
void EncodeSegment(Qp* qp, const SendEntry& entry, const ibv_sge* sges,
                   Mr* const* pins) {
  SendBatch* batch = &qp->group->batch;
  const uint32_t left = entry.length_bytes - qp->tx.offset;
  const uint32_t bytes = std::min(left, qp->tx.segment_bytes);
  const bool last = bytes == left;
  const uint32_t header_bytes = entry.opcode == IBV_WR_RDMA_WRITE
                                    ? kTaggedHeaderBytes
                                    : kUntaggedHeaderBytes;
  if (bytes <= kCopyMax) {
    std::byte* fpdu = AddFpdu(batch, header_bytes + bytes);
    PutSegmentHeader(qp, entry, bytes, last, fpdu);
    CopyPayload(qp, entry, sges, pins, bytes, fpdu + header_bytes);
    SealFpdu(fpdu, header_bytes + bytes, qp->crc);
  } else {
    std::byte* header = AddText(batch, header_bytes);
    PutSegmentHeader(qp, entry, bytes, last, header);
    Crc32c crc;
    if (qp->crc) crc.Add(header, header_bytes);
    Gather(qp, sges, pins, bytes,
           [&](std::byte* from, uint32_t piece, uint32_t key) {
             AddPayload(batch, from, piece, key);
             if (qp->crc) crc.Add(from, piece);
           });
    AddTrailer(batch, qp->crc, &crc, header_bytes - kFpduLengthBytes + bytes);
  }
  qp->tx.offset += bytes;
}

void EncodeReadRequest(Qp* qp, uint64_t number, uint32_t sink_stag,
                       uint64_t sink_to, uint32_t bytes, uint32_t source_stag,
                       uint64_t source_to) {
  SendBatch* batch = &qp->group->batch;
  std::byte* fpdu = AddFpdu(batch, kReadRequestBytes);
  PutReadRequest(fpdu, qp->tx.read_msn++, sink_stag, sink_to, bytes,
                 source_stag, source_to);
  SealFpdu(fpdu, kReadRequestBytes, qp->crc);
  *qp->outbound.Push() = number;
}

// A READ names its sink by the key of the region: what the peer sends there is
// checked against this request, not against rights [iwarp §3.4].
bool EncodeRead(Qp* qp, SendEntry* entry, const ibv_sge* sges) {
  const bool has_sink = entry->sge_count > 0;
  if (has_sink && entry->length_bytes > 0) {
    const AccessFault fault = CheckRange(qp, sges->lkey, sges->addr,
                                         sges->length, IBV_ACCESS_LOCAL_WRITE);
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
  const ibv_sge* sges = queue.SgesOf(number);
  bool complete = true;
  if (entry->opcode == IBV_WR_RDMA_READ) {
    if (!EncodeRead(qp, entry, sges)) return false;
  } else if (entry->opcode == IBV_WR_LOCAL_INV) {
    if (!Invalidate(qp, entry->key, /*by_peer=*/false)) return false;
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
    mr = FindRange(qp, read->source_stag, read->source_to, read->bytes,
                   IBV_ACCESS_REMOTE_READ, &fault);
    if (mr == nullptr) return fault;
  }
  do {
    const uint32_t left = read->bytes - read->offset;
    const uint32_t bytes = std::min(left, qp->tx.segment_bytes);
    const bool copied = bytes <= kCopyMax;
    std::byte* header = copied ? AddFpdu(batch, kTaggedHeaderBytes + bytes)
                               : AddText(batch, kTaggedHeaderBytes);
    PutTagged(header, Opcode::kReadResponse, bytes == left, bytes,
              read->sink_stag, read->sink_to + read->offset);
    std::byte* from =
        bytes > 0 ? mr->At(read->source_to) + read->offset : nullptr;
    if (copied) {
      if (bytes > 0) std::memcpy(header + kTaggedHeaderBytes, from, bytes);
      SealFpdu(header, kTaggedHeaderBytes + bytes, qp->crc);
    } else {
      Crc32c crc;
      if (qp->crc) crc.Add(header, kTaggedHeaderBytes);
      AddPayload(batch, from, bytes, read->source_stag);
      if (qp->crc) crc.Add(from, bytes);
      AddTrailer(batch, qp->crc, &crc,
                 kTaggedHeaderBytes - kFpduLengthBytes + bytes);
    }
    read->offset += bytes;
  } while (read->offset < read->bytes && HasRoom(*batch));
  if (read->offset < read->bytes) return AccessFault::kNone;
  read->end = qp->tx.queued + batch->bytes;
  ++qp->tx.responses_encoded;
  qp->tx.current = Message::kNone;
  return AccessFault::kNone;
}

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

// The next work request, if it is a SEND or WRITE of one piece that is copied:
// many of them are, and need not go through the states. False: it is something
// else, or there is something about it.
bool EncodeSmall(Qp* qp) {
  SendQueue& queue = qp->sends;
  if (queue.next == queue.tail) return false;
  SendEntry* entry = queue.At(queue.next);
  const bool is_write = entry->opcode == IBV_WR_RDMA_WRITE;
  const bool small = (is_write || entry->opcode == IBV_WR_SEND) &&
                     entry->sge_count == 1 && !entry->is_inline &&
                     !entry->fenced && entry->length_bytes <= kSmallMax &&
                     entry->length_bytes <= qp->tx.segment_bytes;
  if (!small) return false;
  const ibv_sge& sge = entry->sge;
  AccessFault fault;
  const Mr* mr = FindRange(qp, sge.lkey, sge.addr, sge.length, 0, &fault);
  if (mr == nullptr) return false;
  SendBatch* batch = &qp->group->batch;
  const uint32_t header_bytes =
      is_write ? kTaggedHeaderBytes : kUntaggedHeaderBytes;
  std::byte* fpdu = AddFpdu(batch, header_bytes + sge.length);
  qp->tx.offset = 0;
  PutSegmentHeader(qp, *entry, sge.length, /*last=*/true, fpdu);
  std::memcpy(fpdu + header_bytes, mr->At(sge.addr), sge.length);
  SealFpdu(fpdu, header_bytes + sge.length, qp->crc);
  entry->state = SendState::kSent;
  entry->end = qp->tx.queued + batch->bytes;
  ++queue.next;
  return true;
}

}  // namespace

bool FillBatch(Qp* qp) {
  SendBatch* batch = &qp->group->batch;
  Clear(batch);
  while (HasRoom(*batch)) {
    const bool only_sends = qp->tx.current == Message::kNone &&
                            qp->tx.responses_encoded == qp->inbound.count &&
                            !qp->tx.stopped;
    if (only_sends && EncodeSmall(qp)) continue;
    if (!PickMessage(qp)) break;
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
    Failure failure;
    failure.what = "a READ of the peer's reaches what it may not";
    failure.terminate = &reason;
    failure.async_event = IBV_EVENT_QP_ACCESS_ERR;
    Fail(qp, failure);
    return false;
  }
  return true;
}

void FillWithTerminate(Qp* qp, const TerminateReason& reason,
                       bool with_header) {
  SendBatch* batch = &qp->group->batch;
  Clear(batch);
  std::byte text[kTerminateMax];
  const uint32_t bytes = PutTerminate(
      text, reason, with_header ? qp->rx.raw_header.data() : nullptr,
      qp->rx.raw_header_bytes);
  std::byte* fpdu = AddFpdu(batch, bytes);
  std::memcpy(fpdu, text, bytes);
  SealFpdu(fpdu, bytes, qp->crc);
}

void FillWithReadyToReceive(Qp* qp, bool write) {
  SendBatch* batch = &qp->group->batch;
  Clear(batch);
  if (!write) {
    EncodeReadRequest(qp, kRtrRead, 1, 0, 0, 1, 0);
    return;
  }
  std::byte* fpdu = AddFpdu(batch, kTaggedHeaderBytes);
  PutTagged(fpdu, Opcode::kWrite, /*last=*/true, 0, /*stag=*/1, /*offset=*/0);
  SealFpdu(fpdu, kTaggedHeaderBytes, qp->crc);
}

}  // namespace sluice::iwarp
