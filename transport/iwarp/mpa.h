// The start-up frames of MPA, in which two ends agree on revision, CRC and
// read depths [iwarp §1.1 to §1.5], and the arithmetic of FPDUs [§1.6, §1.7].
// Bytes only: who sends what when is the connection manager's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace sluice::iwarp {

inline constexpr size_t kMpaHeaderBytes = 20;
inline constexpr size_t kMpaPrivateMax = 512;  // on the wire, RFC 5044
inline constexpr size_t kMpaFrameMax = kMpaHeaderBytes + kMpaPrivateMax;
inline constexpr size_t kEnhancedBytes = 4;
// What siw still takes beside an enhanced block; we send no more.
inline constexpr size_t kUserDataMax = 251;
inline constexpr size_t kUserDataMaxRevision1 = 255;
// Read depth "do not negotiate".
inline constexpr uint16_t kDepthUnchanged = 0x3fff;

// A request or a reply.
struct MpaFrame {
  bool reply = false;
  uint8_t revision = 2;
  bool markers = false;   // the sender wants some in what it receives
  bool crc = false;       // either end's wish binds both
  bool rejected = false;  // replies
  bool enhanced = true;   // the fields below are there

  bool peer_to_peer = false;  // the initiator sends an RTR message first
  bool rtr_send = false;      // what may be one: a SEND, a WRITE, a READ, each
  bool rtr_write = false;     // of nothing
  bool rtr_read = false;
  uint16_t ird = 0;  // 14 bits: READs that the sender can serve at a time
  uint16_t ord = 0;  // and may have in flight

  uint16_t user_bytes = 0;
  std::array<std::byte, kMpaPrivateMax> user_data;

  absl::Span<const std::byte> user() const {
    return absl::MakeConstSpan(user_data.data(), user_bytes);
  }
};

// Writes the frame to `to` of kMpaFrameMax bytes; returns its size. The frame's
// user data is at most what its revision allows.
size_t EncodeMpa(const MpaFrame& frame, std::byte* to);

enum class MpaError : uint8_t {
  kNone,
  kShort,     // more bytes are needed: `*bytes_needed`, counted from the start
  kKey,       // no MPA frame, or the wrong one of the two
  kRevision,  // neither 1 nor 2
  kLength,    // more private data than allowed
  kEnhanced,  // says that it is enhanced and has no room for it
  kEnded,     // the connection ended first; DecodeMpa never says so
};
const char* MpaErrorName(MpaError error);

// Reads a frame from the start of `bytes`; `expect_reply` says which of the
// two. Reserved bits are ignored. Any bytes are safe.
MpaError DecodeMpa(absl::Span<const std::byte> bytes, bool expect_reply,
                   MpaFrame* frame, size_t* bytes_needed);

// --- FPDUs ---

inline constexpr uint32_t kFpduLengthBytes = 2;
inline constexpr uint32_t kCrcBytes = 4;
inline constexpr uint32_t kMulpduMin = 128;
inline constexpr uint32_t kMulpduMax = 64768;

// Zeros behind a ULPDU of so many bytes.
constexpr uint32_t FpduPad(uint32_t ulpdu_bytes) {
  return (4 - (kFpduLengthBytes + ulpdu_bytes) % 4) % 4;
}
constexpr uint32_t FpduBytes(uint32_t ulpdu_bytes) {
  return kFpduLengthBytes + ulpdu_bytes + FpduPad(ulpdu_bytes) + kCrcBytes;
}

// The longest ULPDU whose FPDU fits a TCP segment of `emss` bytes, without
// markers.
uint32_t Mulpdu(uint32_t emss);

}  // namespace sluice::iwarp
