// What the wire tests of connection set-up share: a side of the provider's,
// start-up frames in pieces, and options that are as before when a test ends.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "tests/support/raw_stream.h"
#include "tests/unit/iwarp/wire_side.h"
#include "transport/iwarp/options.h"

namespace sluice::iwarp {

// Flags of a start-up frame, and the bits beside its read depths.
inline constexpr uint8_t kReject = 0x20;
inline constexpr uint8_t kMarkers = 0x80;
inline constexpr uint16_t kHighBit = 0x8000;
inline constexpr uint16_t kLowBit = 0x4000;

inline Bytes First(const Bytes& bytes, size_t count) {
  return Bytes(bytes.begin(),
               bytes.begin() + static_cast<std::ptrdiff_t>(count));
}
inline Bytes Behind(const Bytes& bytes, size_t from) {
  return Bytes(bytes.begin() + static_cast<std::ptrdiff_t>(from), bytes.end());
}

class WireTest : public testing::Test {
 protected:
  ~WireTest() override { MutableOptions() = Options(); }

  // Everything that has come is taken: on loopback it is there at once.
  void Settle() {
    for (int i = 0; i < 4; ++i) side_.Advance();
  }

  WireSide side_;
};

}  // namespace sluice::iwarp
