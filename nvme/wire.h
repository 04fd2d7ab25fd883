// Little-endian numbers in a span of wire bytes. Every multi-byte integer of
// NVMe-oF is little-endian and may sit at any alignment [spec §0]. The caller
// has compared the span's size with what the format needs: an offset beyond it
// is our bug, never a peer's.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "core/check.h"

namespace sluice::nvme {

// Sqe and libnvme's structs are copied to and from the wire as they are.
static_assert(std::endian::native == std::endian::little);

inline uint8_t Load8(absl::Span<const std::byte> bytes, size_t offset) {
  SLUICE_DCHECK(offset < bytes.size());
  return std::to_integer<uint8_t>(bytes[offset]);
}

inline uint16_t Load16(absl::Span<const std::byte> bytes, size_t offset) {
  SLUICE_DCHECK(offset + sizeof(uint16_t) <= bytes.size());
  uint16_t value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

inline uint32_t Load32(absl::Span<const std::byte> bytes, size_t offset) {
  SLUICE_DCHECK(offset + sizeof(uint32_t) <= bytes.size());
  uint32_t value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

inline uint64_t Load64(absl::Span<const std::byte> bytes, size_t offset) {
  SLUICE_DCHECK(offset + sizeof(uint64_t) <= bytes.size());
  uint64_t value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

inline void Store8(absl::Span<std::byte> bytes, size_t offset, uint8_t value) {
  SLUICE_DCHECK(offset < bytes.size());
  bytes[offset] = std::byte{value};
}

inline void Store16(absl::Span<std::byte> bytes, size_t offset,
                    uint16_t value) {
  SLUICE_DCHECK(offset + sizeof(value) <= bytes.size());
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

inline void Store32(absl::Span<std::byte> bytes, size_t offset,
                    uint32_t value) {
  SLUICE_DCHECK(offset + sizeof(value) <= bytes.size());
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

inline void Store64(absl::Span<std::byte> bytes, size_t offset,
                    uint64_t value) {
  SLUICE_DCHECK(offset + sizeof(value) <= bytes.size());
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

}  // namespace sluice::nvme
