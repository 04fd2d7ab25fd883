// Anonymous memory from the kernel, page aligned, freed with its owner.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"

namespace sluice::transport {

class MappedMemory {
 public:
  // Zeroed. Errors: mmap's, with the size.
  static absl::StatusOr<MappedMemory> Map(size_t bytes);

  MappedMemory() = default;
  MappedMemory(MappedMemory&& other) noexcept;
  MappedMemory& operator=(MappedMemory&& other) noexcept;
  ~MappedMemory();

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace sluice::transport
