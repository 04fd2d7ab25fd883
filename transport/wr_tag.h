// What a work request is, packed into its wr_id: never a pointer, so that a
// completion which comes late, twice or from nowhere is recognised and dropped.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::transport {

enum class WrKind : uint8_t {
  kNone = 0,
  kReceive,
  kSend,
  kWrite,
  kRead,
  kSilent,  // without a completion of its own
  kNudge,
  kSharedReceive  // qp_index is that of a SharedReceives
};
inline constexpr size_t kWrKinds = 16;  // what a tag can hold

// "receive", "send", … "unknown". Static text.
const char* WrKindName(WrKind kind);

struct WrTag {
  WrKind kind = WrKind::kNone;
  bool last = false;            // ends its operation's chain; is signalled
  uint8_t slot_generation = 0;  // of the send slot
  uint16_t slot = 0;            // receive slot or send slot of the queue pair;
                                // kSilent: its number among these
  uint16_t qp_index = 0;        // in the reactor's table
  uint16_t qp_generation = 0;   // of that place in the table

  constexpr uint64_t Pack() const {
    return static_cast<uint64_t>(kind) | static_cast<uint64_t>(last) << 4 |
           static_cast<uint64_t>(slot_generation) << 8 |
           static_cast<uint64_t>(slot) << 16 |
           static_cast<uint64_t>(qp_index) << 32 |
           static_cast<uint64_t>(qp_generation) << 48;
  }

  static constexpr WrTag Unpack(uint64_t wr_id) {
    return WrTag{.kind = static_cast<WrKind>(wr_id & 0xf),
                 .last = (wr_id >> 4 & 1) != 0,
                 .slot_generation = static_cast<uint8_t>(wr_id >> 8),
                 .slot = static_cast<uint16_t>(wr_id >> 16),
                 .qp_index = static_cast<uint16_t>(wr_id >> 32),
                 .qp_generation = static_cast<uint16_t>(wr_id >> 48)};
  }
};

}  // namespace sluice::transport
