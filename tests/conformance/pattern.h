// Bytes that say where they belong: every byte depends on the seed and on its
// place, so that data of another command, offset or round is seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "tests/conformance/raw_connection.h"

namespace sluice::conformance {

void FillPattern(uint64_t seed, absl::Span<std::byte> out);
Bytes Pattern(uint64_t seed, size_t length_bytes);

// "" when `bytes` is FillPattern(seed) from its start; else where it is not.
std::string DiffersFromPattern(uint64_t seed,
                               absl::Span<const std::byte> bytes);
// "" when all bytes are `value`.
std::string DiffersFrom(uint8_t value, absl::Span<const std::byte> bytes);

}  // namespace sluice::conformance
