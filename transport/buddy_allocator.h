// Splits a region into blocks of powers of two times 4 KiB, contiguous and
// aligned to their size within the region. Knows only offsets. Taking and
// giving back cost O(log size) and allocate nothing. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::transport {

class BuddyAllocator {
 public:
  static constexpr size_t kNone = SIZE_MAX;

  // `bytes` is rounded down to whole blocks of 4 KiB.
  explicit BuddyAllocator(size_t bytes);

  // Offset of a block of at least `bytes` (> 0), or kNone.
  size_t Take(size_t bytes);
  // Gives back what Take returned.
  void Give(size_t offset);

  size_t total_bytes() const { return total_bytes_; }
  size_t used_bytes() const { return used_bytes_; }
  // What a request of `bytes` really takes.
  static size_t BlockBytes(size_t bytes);

 private:
  static constexpr uint32_t kEnd = UINT32_MAX;
  static constexpr uint8_t kFree = 0x80;   // flag beside the order
  static constexpr uint8_t kInner = 0x7f;  // inside a larger block

  void PushFree(uint32_t page, uint8_t order);
  void RemoveFree(uint32_t page, uint8_t order);

  size_t total_bytes_;
  size_t used_bytes_ = 0;
  std::vector<uint8_t> state_;  // per page: order, kFree | order, or kInner
  std::vector<uint32_t> next_;  // free lists, by page
  std::vector<uint32_t> previous_;
  std::vector<uint32_t> heads_;  // per order
};

}  // namespace sluice::transport
