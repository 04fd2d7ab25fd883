#include "transport/iwarp/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace sluice::iwarp {

void Crc32c::Add(const std::byte* data, size_t bytes) {
  constexpr size_t kPiece = size_t{1} << 30;  // ISA-L counts in int
  while (bytes > 0) {
    const size_t piece = std::min(bytes, kPiece);
    // It reads only; its first parameter is not const.
    auto* from = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(data));
    state_ = crc32_iscsi(from, static_cast<int>(piece), state_);
    data += piece;
    bytes -= piece;
  }
}

}  // namespace sluice::iwarp
