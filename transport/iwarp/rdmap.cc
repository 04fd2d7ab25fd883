#include "transport/iwarp/rdmap.h"

#include <algorithm>
#include <cstring>

namespace sluice::iwarp {
namespace {

constexpr uint8_t kHasSegmentLength = 0x80;
constexpr uint8_t kHasDdpHeader = 0x40;
constexpr uint8_t kHasRdmapHeader = 0x20;
constexpr uint8_t kAnyHeader = 0xe0;
constexpr uint8_t kAnyHeaderSiw = 0x07;

constexpr uint32_t kReadBodyBytes = kReadRequestBytes - kUntaggedHeaderBytes;

uint32_t QueueOf(Opcode opcode) {
  if (opcode == Opcode::kReadRequest) return kQueueReadRequest;
  return opcode == Opcode::kTerminate ? kQueueTerminate : kQueueSend;
}

// ULPDU bytes that a segment of this kind has at least.
uint32_t UlpduBytesMin(Opcode opcode) {
  const uint32_t header = HeaderBytes(opcode) - 2;
  return opcode == Opcode::kTerminate ? header + kTerminateFixedBytes : header;
}

}  // namespace

void PutReadRequest(std::byte* to, uint32_t msn, uint32_t sink_stag,
                    uint64_t sink_to, uint32_t read_bytes, uint32_t source_stag,
                    uint64_t source_to) {
  PutUntagged(to, Opcode::kReadRequest, /*last=*/true, kReadBodyBytes,
              /*invalidate=*/0, kQueueReadRequest, msn, /*mo=*/0);
  Put32(to + 20, sink_stag);
  Put64(to + 24, sink_to);
  Put32(to + 32, read_bytes);
  Put32(to + 36, source_stag);
  Put64(to + 40, source_to);
}

uint32_t PutTerminate(std::byte* to, const TerminateReason& reason,
                      const std::byte* offender, uint32_t offender_bytes) {
  std::byte* body = to + kUntaggedHeaderBytes;
  body[0] = static_cast<std::byte>(static_cast<uint8_t>(reason.layer) << 4 |
                                   reason.type);
  body[1] = std::byte{reason.code};
  body[2] = body[3] = std::byte{0};
  uint32_t payload = kTerminateFixedBytes;
  // MPA's faults name no segment.
  if (offender != nullptr && reason.layer != Layer::kMpa) {
    const bool is_read = offender_bytes >= kReadRequestBytes &&
                         reason.layer == Layer::kRdmap && reason.type == 1;
    const uint32_t header = std::min(offender_bytes, kUntaggedHeaderBytes) - 2;
    uint8_t flags = kHasSegmentLength | kHasDdpHeader;
    std::memcpy(body + payload, offender, 2);  // the segment's length
    std::memcpy(body + payload + 2, offender + 2, header);
    payload += 2 + header;
    if (is_read) {
      flags |= kHasRdmapHeader;
      std::memcpy(body + payload, offender + kUntaggedHeaderBytes,
                  kReadBodyBytes);
      payload += kReadBodyBytes;
    }
    body[2] = std::byte{flags};
  }
  PutUntagged(to, Opcode::kTerminate, /*last=*/true, payload, /*invalidate=*/0,
              kQueueTerminate, /*msn=*/1, /*mo=*/0);
  return kUntaggedHeaderBytes + payload;
}

TerminateReason ReadTerminate(const std::byte* body) {
  const auto first = std::to_integer<uint8_t>(body[0]);
  const auto flags = std::to_integer<uint8_t>(body[2]);
  auto layer = static_cast<uint8_t>(first >> 4);
  auto type = static_cast<uint8_t>(first & 0x0f);
  if ((flags & kAnyHeader) == 0 && (flags & kAnyHeaderSiw) != 0) {
    std::swap(layer, type);
  }
  TerminateReason reason;
  reason.layer = static_cast<Layer>(layer);
  reason.type = type;
  reason.code = std::to_integer<uint8_t>(body[1]);
  return reason;
}

HeaderResult DecodeHeader(const std::byte* from, uint32_t bytes,
                          SegmentHeader* header, uint32_t* bytes_needed,
                          TerminateReason* reason) {
  *bytes_needed = kHeaderStartBytes;
  if (bytes < kHeaderStartBytes) return HeaderResult::kShort;
  const uint16_t control = Get16(from + 2);
  const bool tagged = (control & kControlTagged) != 0;
  const auto fault = [reason](const TerminateReason& why) {
    *reason = why;
    return HeaderResult::kBad;
  };
  if ((control & kControlDdpVersion) != kControlDdpVersion1) {
    return fault(tagged ? kDdpTaggedVersion : kDdpUntaggedVersion);
  }
  if ((control & kControlRdmapVersion) != kControlRdmapVersion1) {
    return fault(kRdmapVersion);
  }
  const auto code = static_cast<uint8_t>(control & kControlOpcode);
  if (code > kOpcodeMax) return fault(kRdmapOpcode);
  const auto opcode = static_cast<Opcode>(code);
  if (tagged != IsTagged(opcode)) return fault(kRdmapOpcode);
  header->ulpdu_bytes = Get16(from);
  header->opcode = opcode;
  header->last = (control & kControlLast) != 0;
  if (header->ulpdu_bytes < UlpduBytesMin(opcode)) return fault(kMpaLength);
  *bytes_needed = HeaderBytes(opcode);
  if (bytes < *bytes_needed) return HeaderResult::kShort;
  header->stag = Get32(from + 4);
  if (tagged) {
    header->to = Get64(from + 8);
    return HeaderResult::kComplete;
  }
  header->queue = Get32(from + 8);
  header->msn = Get32(from + 12);
  header->mo = Get32(from + 16);
  if (header->queue != QueueOf(opcode)) return fault(kDdpQueue);
  if (opcode != Opcode::kReadRequest) return HeaderResult::kComplete;
  if (header->ulpdu_bytes != UlpduBytesMin(opcode)) return fault(kMpaLength);
  header->sink_stag = Get32(from + 20);
  header->sink_to = Get64(from + 24);
  header->read_bytes = Get32(from + 32);
  header->source_stag = Get32(from + 36);
  header->source_to = Get64(from + 40);
  return HeaderResult::kComplete;
}

uint32_t FaultyHeaderBytes(const std::byte* from, uint32_t bytes) {
  if (bytes < kHeaderStartBytes) return 0;
  const uint32_t header = (Get16(from + 2) & kControlTagged) != 0
                              ? kTaggedHeaderBytes
                              : kUntaggedHeaderBytes;
  const uint32_t segment = Get16(from) + 2u;
  return header <= std::min(bytes, segment) ? header : 0;
}

}  // namespace sluice::iwarp
