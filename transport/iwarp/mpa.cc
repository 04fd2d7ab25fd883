#include "transport/iwarp/mpa.h"

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "transport/iwarp/big_endian.h"

namespace sluice::iwarp {
namespace {

constexpr size_t kKeyBytes = 16;
constexpr char kRequestKey[kKeyBytes + 1] = "MPA ID Req Frame";
constexpr char kReplyKey[kKeyBytes + 1] = "MPA ID Rep Frame";

constexpr uint8_t kFlagMarkers = 0x80;
constexpr uint8_t kFlagCrc = 0x40;
constexpr uint8_t kFlagReject = 0x20;
constexpr uint8_t kFlagEnhanced = 0x10;

constexpr uint16_t kDepthMask = 0x3fff;
constexpr uint16_t kHighBit = 0x8000;  // peer-to-peer; WRITE
constexpr uint16_t kLowBit = 0x4000;   // SEND; READ

uint16_t Enhanced(uint16_t depth, bool high, bool low) {
  return static_cast<uint16_t>((depth & kDepthMask) | (high ? kHighBit : 0) |
                               (low ? kLowBit : 0));
}

}  // namespace

size_t EncodeMpa(const MpaFrame& frame, std::byte* to) {
  const bool enhanced = frame.revision >= 2 && frame.enhanced;
  SLUICE_CHECK(frame.user_bytes <=
               (enhanced ? kUserDataMax : kUserDataMaxRevision1));
  std::memcpy(to, frame.reply ? kReplyKey : kRequestKey, kKeyBytes);
  uint8_t flags = 0;
  if (frame.markers) flags |= kFlagMarkers;
  if (frame.crc) flags |= kFlagCrc;
  if (frame.rejected) flags |= kFlagReject;
  if (enhanced) flags |= kFlagEnhanced;
  to[16] = std::byte{flags};
  to[17] = std::byte{frame.revision};
  size_t bytes = kMpaHeaderBytes;
  if (enhanced) {
    Put16(to + bytes, Enhanced(frame.ird, frame.peer_to_peer, frame.rtr_send));
    Put16(to + bytes + 2, Enhanced(frame.ord, frame.rtr_write, frame.rtr_read));
    bytes += kEnhancedBytes;
  }
  std::memcpy(to + bytes, frame.user_data.data(), frame.user_bytes);
  bytes += frame.user_bytes;
  Put16(to + 18, static_cast<uint16_t>(bytes - kMpaHeaderBytes));
  return bytes;
}

const char* MpaErrorName(MpaError error) {
  switch (error) {
    case MpaError::kNone:
      return "none";
    case MpaError::kShort:
      return "incomplete";
    case MpaError::kKey:
      return "not an MPA frame";
    case MpaError::kRevision:
      return "unknown revision";
    case MpaError::kLength:
      return "private data too long";
    case MpaError::kEnhanced:
      return "enhanced data missing";
    case MpaError::kEnded:
      return "the connection ended";
  }
  return "?";
}

MpaError DecodeMpa(absl::Span<const std::byte> bytes, bool expect_reply,
                   MpaFrame* frame, size_t* bytes_needed) {
  *bytes_needed = kMpaHeaderBytes;
  // A wrong start need not be waited out.
  const char* key = expect_reply ? kReplyKey : kRequestKey;
  const size_t key_bytes = std::min(bytes.size(), kKeyBytes);
  if (key_bytes > 0 && std::memcmp(bytes.data(), key, key_bytes) != 0) {
    return MpaError::kKey;
  }
  if (bytes.size() < kMpaHeaderBytes) return MpaError::kShort;
  const auto flags = std::to_integer<uint8_t>(bytes[16]);
  frame->reply = expect_reply;
  frame->markers = (flags & kFlagMarkers) != 0;
  frame->crc = (flags & kFlagCrc) != 0;
  frame->rejected = expect_reply && (flags & kFlagReject) != 0;
  frame->revision = std::to_integer<uint8_t>(bytes[17]);
  if (frame->revision < 1 || frame->revision > 2) return MpaError::kRevision;
  frame->enhanced = frame->revision >= 2 && (flags & kFlagEnhanced) != 0;
  const size_t private_bytes = Get16(bytes.data() + 18);
  if (private_bytes > kMpaPrivateMax) return MpaError::kLength;
  if (frame->enhanced && private_bytes < kEnhancedBytes) {
    return MpaError::kEnhanced;
  }
  *bytes_needed = kMpaHeaderBytes + private_bytes;
  if (bytes.size() < *bytes_needed) return MpaError::kShort;
  const std::byte* user = bytes.data() + kMpaHeaderBytes;
  frame->user_bytes = static_cast<uint16_t>(private_bytes);
  if (frame->enhanced) {
    const uint16_t first = Get16(user);
    const uint16_t second = Get16(user + 2);
    frame->peer_to_peer = (first & kHighBit) != 0;
    frame->rtr_send = (first & kLowBit) != 0;
    frame->ird = first & kDepthMask;
    frame->rtr_write = (second & kHighBit) != 0;
    frame->rtr_read = (second & kLowBit) != 0;
    frame->ord = second & kDepthMask;
    user += kEnhancedBytes;
    frame->user_bytes = static_cast<uint16_t>(private_bytes - kEnhancedBytes);
  }
  std::memcpy(frame->user_data.data(), user, frame->user_bytes);
  return MpaError::kNone;
}

uint32_t Mulpdu(uint32_t emss) {
  const uint32_t overhead = 6 + emss % 4;
  if (emss < kMulpduMin + overhead) return kMulpduMin;
  return std::min(emss - overhead, kMulpduMax);
}

}  // namespace sluice::iwarp
