#include "tests/conformance/pattern.h"

#include "absl/strings/str_cat.h"

namespace sluice::conformance {
namespace {

// One round of splitmix64.
uint64_t Mix(uint64_t value) {
  value += 0x9E3779B97F4A7C15;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

std::byte At(uint64_t seed, size_t index) {
  const uint64_t word = Mix(Mix(seed) + index / 8);
  return static_cast<std::byte>(word >> (index % 8 * 8));
}

std::string Differs(size_t index, std::byte got, std::byte wanted) {
  return absl::StrCat("byte ", index, " is 0x",
                      absl::Hex(std::to_integer<int>(got), absl::kZeroPad2),
                      ", not 0x",
                      absl::Hex(std::to_integer<int>(wanted), absl::kZeroPad2));
}

}  // namespace

void FillPattern(uint64_t seed, absl::Span<std::byte> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = At(seed, i);
}

Bytes Pattern(uint64_t seed, size_t length_bytes) {
  Bytes bytes(length_bytes);
  FillPattern(seed, absl::MakeSpan(bytes));
  return bytes;
}

std::string DiffersFromPattern(uint64_t seed,
                               absl::Span<const std::byte> bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != At(seed, i)) return Differs(i, bytes[i], At(seed, i));
  }
  return "";
}

std::string DiffersFrom(uint8_t value, absl::Span<const std::byte> bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != std::byte{value}) {
      return Differs(i, bytes[i], std::byte{value});
    }
  }
  return "";
}

}  // namespace sluice::conformance
