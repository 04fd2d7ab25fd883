// Big-endian numbers at any address: every integer of MPA, DDP and RDMAP is
// one, but for the CRC [iwarp §1.6]. The caller has checked the bounds.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice::iwarp {

static_assert(std::endian::native == std::endian::little);

inline uint16_t Get16(const std::byte* from) {
  uint16_t value;
  std::memcpy(&value, from, sizeof(value));
  return __builtin_bswap16(value);
}

inline uint32_t Get32(const std::byte* from) {
  uint32_t value;
  std::memcpy(&value, from, sizeof(value));
  return __builtin_bswap32(value);
}

inline uint64_t Get64(const std::byte* from) {
  uint64_t value;
  std::memcpy(&value, from, sizeof(value));
  return __builtin_bswap64(value);
}

inline void Put16(std::byte* to, uint16_t value) {
  value = __builtin_bswap16(value);
  std::memcpy(to, &value, sizeof(value));
}

inline void Put32(std::byte* to, uint32_t value) {
  value = __builtin_bswap32(value);
  std::memcpy(to, &value, sizeof(value));
}

inline void Put64(std::byte* to, uint64_t value) {
  value = __builtin_bswap64(value);
  std::memcpy(to, &value, sizeof(value));
}

}  // namespace sluice::iwarp
