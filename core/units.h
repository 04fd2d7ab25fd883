// Sizes and durations as people write them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;

// "4096", "64K", "64KiB", "1.5G", "2TiB": K, M, G, T, P, E are powers of 1024;
// fractions only with one of them.
// Errors: InvalidArgument, with what was wrong.
absl::StatusOr<uint64_t> ParseBytes(absl::string_view text);

// "64 MiB", "1.5 GiB", "513 B".
std::string FormatBytes(uint64_t bytes);

constexpr bool IsPowerOfTwo(uint64_t value) {
  return value != 0 && (value & (value - 1)) == 0;
}
constexpr uint64_t RoundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace sluice
