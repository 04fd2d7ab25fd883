// The headers of DDP and RDMAP, and Terminate's reasons [iwarp §2, §3]. An FPDU
// starts with ULPDU_Length; offsets here count from there, so that a header
// of a tagged segment has 16 bytes, of an untagged one 20.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/iwarp/big_endian.h"

namespace sluice::iwarp {

enum class Opcode : uint8_t {
  kWrite = 0,
  kReadRequest = 1,
  kReadResponse = 2,
  kSend = 3,
  kSendInvalidate = 4,
  kSendSolicited = 5,
  kSendSolicitedInvalidate = 6,
  kTerminate = 7,
};
inline constexpr uint8_t kOpcodeMax = 7;

constexpr bool IsTagged(Opcode opcode) {
  return opcode == Opcode::kWrite || opcode == Opcode::kReadResponse;
}
constexpr bool IsSend(Opcode opcode) {
  return opcode >= Opcode::kSend && opcode <= Opcode::kSendSolicitedInvalidate;
}
constexpr bool Invalidates(Opcode opcode) {
  return opcode == Opcode::kSendInvalidate ||
         opcode == Opcode::kSendSolicitedInvalidate;
}
constexpr bool IsSolicited(Opcode opcode) {
  return opcode == Opcode::kSendSolicited ||
         opcode == Opcode::kSendSolicitedInvalidate;
}

inline constexpr uint32_t kTaggedHeaderBytes = 16;
inline constexpr uint32_t kUntaggedHeaderBytes = 20;
inline constexpr uint32_t kReadRequestBytes = 48;  // header and body
inline constexpr uint32_t kHeaderBytesMax = kReadRequestBytes;

// Queue numbers of untagged messages.
inline constexpr uint32_t kQueueSend = 0;
inline constexpr uint32_t kQueueReadRequest = 1;
inline constexpr uint32_t kQueueTerminate = 2;

// Bits of the control word.
inline constexpr uint16_t kControlTagged = 0x8000;
inline constexpr uint16_t kControlLast = 0x4000;
inline constexpr uint16_t kControlDdpVersion = 0x0300;
inline constexpr uint16_t kControlDdpVersion1 = 0x0100;
inline constexpr uint16_t kControlRdmapVersion = 0x00c0;
inline constexpr uint16_t kControlRdmapVersion1 = 0x0040;
inline constexpr uint16_t kControlOpcode = 0x000f;

constexpr uint16_t Control(Opcode opcode, bool last) {
  return static_cast<uint16_t>((IsTagged(opcode) ? kControlTagged : 0) |
                               (last ? kControlLast : 0) | kControlDdpVersion1 |
                               kControlRdmapVersion1 |
                               static_cast<uint16_t>(opcode));
}

// Header bytes of a segment, ULPDU_Length included.
constexpr uint32_t HeaderBytes(Opcode opcode) {
  if (IsTagged(opcode)) return kTaggedHeaderBytes;
  return opcode == Opcode::kReadRequest ? kReadRequestBytes
                                        : kUntaggedHeaderBytes;
}

// A segment's header as it came or goes. Which fields count depends on the
// opcode.
struct SegmentHeader {
  uint16_t ulpdu_bytes = 0;
  Opcode opcode = Opcode::kSend;
  bool last = true;
  uint32_t stag = 0;       // tagged: the buffer; untagged: what to invalidate
  uint64_t to = 0;         // tagged: address of the first byte
  uint32_t queue = 0;      // untagged
  uint32_t msn = 0;        // untagged: number of the message, from 1
  uint32_t mo = 0;         // untagged: offset in the message
  uint32_t sink_stag = 0;  // READ request: where the answer goes
  uint64_t sink_to = 0;
  uint32_t read_bytes = 0;
  uint32_t source_stag = 0;
  uint64_t source_to = 0;

  uint32_t payload_bytes() const {
    return ulpdu_bytes + 2u - HeaderBytes(opcode);
  }
};

// Each writes HeaderBytes(opcode) bytes.
inline void PutTagged(std::byte* to, Opcode opcode, bool last,
                      uint32_t payload_bytes, uint32_t stag, uint64_t offset) {
  Put16(to, static_cast<uint16_t>(kTaggedHeaderBytes - 2 + payload_bytes));
  Put16(to + 2, Control(opcode, last));
  Put32(to + 4, stag);
  Put64(to + 8, offset);
}

inline void PutUntagged(std::byte* to, Opcode opcode, bool last,
                        uint32_t payload_bytes, uint32_t invalidate,
                        uint32_t queue, uint32_t msn, uint32_t mo) {
  Put16(to, static_cast<uint16_t>(kUntaggedHeaderBytes - 2 + payload_bytes));
  Put16(to + 2, Control(opcode, last));
  Put32(to + 4, invalidate);
  Put32(to + 8, queue);
  Put32(to + 12, msn);
  Put32(to + 16, mo);
}

void PutReadRequest(std::byte* to, uint32_t msn, uint32_t sink_stag,
                    uint64_t sink_to, uint32_t read_bytes, uint32_t source_stag,
                    uint64_t source_to);

// --- Terminate ---

enum class Layer : uint8_t { kRdmap = 0, kDdp = 1, kMpa = 2 };

// Why a stream is given up: layer, type and code of [iwarp §1.10, §2.4, §3.6].
struct TerminateReason {
  Layer layer = Layer::kRdmap;
  uint8_t type = 0;
  uint8_t code = 0;

  friend bool operator==(const TerminateReason&,
                         const TerminateReason&) = default;
};

inline constexpr TerminateReason kMpaCrc = {Layer::kMpa, 0, 2};
inline constexpr TerminateReason kMpaLength = {Layer::kMpa, 0, 3};
inline constexpr TerminateReason kMpaLocal = {Layer::kMpa, 0, 5};
inline constexpr TerminateReason kMpaIrd = {Layer::kMpa, 0, 6};
inline constexpr TerminateReason kMpaRtr = {Layer::kMpa, 0, 7};
inline constexpr TerminateReason kDdpTaggedStag = {Layer::kDdp, 1, 0};
inline constexpr TerminateReason kDdpTaggedBounds = {Layer::kDdp, 1, 1};
inline constexpr TerminateReason kDdpTaggedStream = {Layer::kDdp, 1, 2};
inline constexpr TerminateReason kDdpTaggedWrap = {Layer::kDdp, 1, 3};
inline constexpr TerminateReason kDdpTaggedVersion = {Layer::kDdp, 1, 4};
inline constexpr TerminateReason kDdpQueue = {Layer::kDdp, 2, 1};
inline constexpr TerminateReason kDdpNoBuffer = {Layer::kDdp, 2, 2};
inline constexpr TerminateReason kDdpMsn = {Layer::kDdp, 2, 3};
inline constexpr TerminateReason kDdpOffset = {Layer::kDdp, 2, 4};
inline constexpr TerminateReason kDdpTooLong = {Layer::kDdp, 2, 5};
inline constexpr TerminateReason kDdpUntaggedVersion = {Layer::kDdp, 2, 6};
inline constexpr TerminateReason kDdpLocal = {Layer::kDdp, 0, 0};
inline constexpr TerminateReason kRdmapStag = {Layer::kRdmap, 1, 0};
inline constexpr TerminateReason kRdmapBounds = {Layer::kRdmap, 1, 1};
inline constexpr TerminateReason kRdmapAccess = {Layer::kRdmap, 1, 2};
inline constexpr TerminateReason kRdmapStream = {Layer::kRdmap, 1, 3};
inline constexpr TerminateReason kRdmapWrap = {Layer::kRdmap, 1, 4};
inline constexpr TerminateReason kRdmapInvalidate = {Layer::kRdmap, 1, 9};
inline constexpr TerminateReason kRdmapVersion = {Layer::kRdmap, 2, 5};
inline constexpr TerminateReason kRdmapOpcode = {Layer::kRdmap, 2, 6};
inline constexpr TerminateReason kRdmapStreamLost = {Layer::kRdmap, 2, 7};

// ULPDU bytes of a Terminate without and with headers of the segment at fault.
inline constexpr uint32_t kTerminateFixedBytes = 4;
inline constexpr uint32_t kTerminateMax =
    kUntaggedHeaderBytes + kTerminateFixedBytes + 2 + kReadRequestBytes;

// Writes a Terminate without trailer (FPDU header included) to `to` of
// kTerminateMax bytes; returns its size. `offender` is the header at fault as
// it came, of `offender_bytes` with its ULPDU_Length, or null.
uint32_t PutTerminate(std::byte* to, const TerminateReason& reason,
                      const std::byte* offender, uint32_t offender_bytes);

// What a Terminate of `bytes` behind the untagged header says. siw swaps the
// halves of the first byte and the bits of the third [iwarp §3.6].
TerminateReason ReadTerminate(const std::byte* body);

// --- receiving ---

// How much of a segment's header must be there before it can be decoded: first
// four bytes, then what its opcode says.
inline constexpr uint32_t kHeaderStartBytes = 4;

// Decodes the header at `from` of `bytes`. Returns 0 and sets `*bytes_needed`
// above `bytes` when there is too little; else the header is complete, or at
// fault and `*reason` says how (then -1). Checks what needs no state: versions,
// opcode, tag, queue number, length.
enum class HeaderResult : uint8_t { kComplete, kShort, kBad };
HeaderResult DecodeHeader(const std::byte* from, uint32_t bytes,
                          SegmentHeader* header, uint32_t* bytes_needed,
                          TerminateReason* reason);
// How much of a header at fault goes into the Terminate: the DDP header, as
// long as its tag says, or nothing where the segment or what has come of it
// does not hold that.
uint32_t FaultyHeaderBytes(const std::byte* from, uint32_t bytes);

}  // namespace sluice::iwarp
