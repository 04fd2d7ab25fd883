#include "transport/buddy_allocator.h"

#include <bit>

#include "core/check.h"
#include "transport/limits.h"

namespace sluice::transport {
namespace {

// The smallest order whose block holds `bytes`.
uint8_t OrderOf(size_t bytes) {
  const size_t pages = (bytes + kExtentMinBytes - 1) / kExtentMinBytes;
  return static_cast<uint8_t>(std::bit_width(pages - 1));
}

}  // namespace

size_t BuddyAllocator::BlockBytes(size_t bytes) {
  return kExtentMinBytes << OrderOf(bytes);
}

BuddyAllocator::BuddyAllocator(size_t bytes)
    : total_bytes_(bytes / kExtentMinBytes * kExtentMinBytes) {
  const size_t pages = total_bytes_ / kExtentMinBytes;
  SLUICE_CHECK(pages > 0);
  SLUICE_CHECK(pages < kEnd);
  state_.assign(pages, kInner);
  next_.assign(pages, kEnd);
  previous_.assign(pages, kEnd);
  heads_.assign(static_cast<size_t>(std::bit_width(pages)), kEnd);
  // The largest aligned blocks that fit, from the left.
  size_t page = 0;
  for (auto order = static_cast<uint8_t>(heads_.size()); order-- > 0;) {
    const size_t block = size_t{1} << order;
    if (pages - page < block) continue;
    PushFree(static_cast<uint32_t>(page), order);
    page += block;
  }
}

size_t BuddyAllocator::Take(size_t bytes) {
  SLUICE_DCHECK(bytes > 0);
  const uint8_t wanted = OrderOf(bytes);
  uint8_t order = wanted;
  while (order < heads_.size() && heads_[order] == kEnd) ++order;
  if (order >= heads_.size()) return kNone;
  const uint32_t page = heads_[order];
  RemoveFree(page, order);
  while (order > wanted) {
    --order;
    PushFree(page + (uint32_t{1} << order), order);
  }
  state_[page] = wanted;
  used_bytes_ += kExtentMinBytes << wanted;
  return size_t{page} * kExtentMinBytes;
}

void BuddyAllocator::Give(size_t offset) {
  auto page = static_cast<uint32_t>(offset / kExtentMinBytes);
  SLUICE_CHECK(offset % kExtentMinBytes == 0 && page < state_.size());
  uint8_t order = state_[page];
  SLUICE_CHECK(order < heads_.size());  // not free, not inside a block
  used_bytes_ -= kExtentMinBytes << order;
  state_[page] = kInner;
  while (size_t{order} + 1 < heads_.size()) {
    const uint32_t buddy = page ^ (uint32_t{1} << order);
    if (buddy >= state_.size() || state_[buddy] != (kFree | order)) break;
    RemoveFree(buddy, order);
    page &= ~(uint32_t{1} << order);
    ++order;
  }
  PushFree(page, order);
}

void BuddyAllocator::PushFree(uint32_t page, uint8_t order) {
  state_[page] = kFree | order;
  previous_[page] = kEnd;
  next_[page] = heads_[order];
  if (heads_[order] != kEnd) previous_[heads_[order]] = page;
  heads_[order] = page;
}

void BuddyAllocator::RemoveFree(uint32_t page, uint8_t order) {
  SLUICE_DCHECK(state_[page] == (kFree | order));
  state_[page] = kInner;
  if (previous_[page] != kEnd) {
    next_[previous_[page]] = next_[page];
  } else {
    heads_[order] = next_[page];
  }
  if (next_[page] != kEnd) previous_[next_[page]] = previous_[page];
}

}  // namespace sluice::transport
