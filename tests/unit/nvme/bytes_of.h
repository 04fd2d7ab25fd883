// The bytes of a libnvme struct, read at the offsets of the specification and
// not by libnvme's field names, so that its layout is under test too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "nvme/wire.h"

namespace sluice::nvme {

class BytesOf {
 public:
  template <typename T>
  explicit BytesOf(const T& wire) : bytes_(sizeof(wire)) {
    std::memcpy(bytes_.data(), &wire, sizeof(wire));
  }

  uint8_t U8(size_t offset) const { return Load8(bytes_, offset); }
  uint16_t U16(size_t offset) const { return Load16(bytes_, offset); }
  uint32_t U32(size_t offset) const { return Load32(bytes_, offset); }
  uint64_t U64(size_t offset) const { return Load64(bytes_, offset); }
  std::string Text(size_t offset, size_t size) const {
    std::string text(size, '\0');
    std::memcpy(text.data(), bytes_.data() + offset, size);
    return text;
  }
  bool Zero(size_t from, size_t to) const {
    for (size_t i = from; i < to; ++i) {
      if (bytes_[i] != std::byte{0}) return false;
    }
    return true;
  }
  size_t size() const { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace sluice::nvme
