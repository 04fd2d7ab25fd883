// The checksum of an FPDU: CRC32c, of the bytes one after the other
// [iwarp §1.6]. ISA-L computes it with the processor's instructions where it
// has them. On the wire its least significant byte is first.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::iwarp {

class Crc32c {
 public:
  void Add(const std::byte* data, size_t bytes);
  uint32_t value() const { return ~state_; }

 private:
  uint32_t state_ = ~uint32_t{0};
};

}  // namespace sluice::iwarp
