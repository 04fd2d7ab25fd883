#include "transport/extent_pool.h"

#include <algorithm>

#include "core/check.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "core/units.h"
#include "transport/limits.h"

namespace sluice::transport {

absl::StatusOr<std::unique_ptr<ExtentPool>> ExtentPool::Create(Reactor* reactor,
                                                               size_t bytes) {
  SLUICE_ASSIGN_OR_RETURN(MappedMemory memory, MappedMemory::Map(bytes));
  std::unique_ptr<ExtentPool> pool(new ExtentPool(reactor, std::move(memory)));
  pool->RegisterWithRing();
  return pool;
}

ExtentPool::ExtentPool(Reactor* reactor, MappedMemory memory)
    : reactor_(reactor),
      memory_(std::move(memory)),
      allocator_(memory_.bytes() - kReserveBytes),
      reserve_(kReserveBytes) {
  std::fill(std::begin(ring_buffers_), std::end(ring_buffers_), -1);
}

void ExtentPool::RegisterWithRing() {
  const size_t pieces = (memory_.bytes() + kPieceBytes - 1) / kPieceBytes;
  if (pieces > std::size(ring_buffers_)) return;
  registered_with_ring_ = true;
  for (size_t i = 0; i < pieces; ++i) {
    const size_t offset = i * kPieceBytes;
    const size_t bytes = std::min(kPieceBytes, memory_.bytes() - offset);
    ring_buffers_[i] =
        reactor_->ring()->AddBuffer(memory_.data() + offset, bytes);
    registered_with_ring_ &= ring_buffers_[i] >= 0;
  }
}

ExtentPool::~ExtentPool() {
  SLUICE_CHECK(waiting_.empty());
  SLUICE_CHECK(urgent_.empty());
  SLUICE_CHECK(used_bytes() == 0);
  for (int buffer : ring_buffers_) reactor_->ring()->RemoveBuffer(buffer);
}

ExtentPool::Request::Request(ExtentPool* pool, uint32_t bytes, bool urgent)
    : pool_(pool), bytes_(bytes), urgent_(urgent && bytes <= kUrgentMaxBytes) {
  SLUICE_CHECK(bytes > 0);
  SLUICE_CHECK(BuddyAllocator::BlockBytes(bytes) <= pool->max_bytes());
}

bool ExtentPool::TryGrant(Request* request) {
  if (request->urgent_) return Cut(request);
  auto* first = static_cast<Request*>(waiting_.front());
  if (first == nullptr) return Cut(request);
  // Somebody waits. A smaller request may go ahead, within bounds.
  if (request->bytes_ >= first->bytes_ || first->overtaken_ >= kOvertakeMax ||
      !Cut(request)) {
    return false;
  }
  ++first->overtaken_;
  return true;
}

bool ExtentPool::Cut(Request* request) {
  size_t offset = allocator_.Take(request->bytes_);
  if (offset != BuddyAllocator::kNone) {
    Place(request, offset);
    return true;
  }
  if (!request->urgent_) return false;
  offset = reserve_.Take(request->bytes_);
  if (offset == BuddyAllocator::kNone) return false;
  Place(request, memory_.bytes() - kReserveBytes + offset);
  return true;
}

void ExtentPool::Place(Request* request, size_t offset) {
  request->extent_.data = memory_.data() + offset;
  request->extent_.bytes = request->bytes_;
  request->extent_.ring_buffer = ring_buffers_[offset / kPieceBytes];
}

void ExtentPool::Give(const Extent& extent) {
  const auto offset = static_cast<size_t>(extent.data - memory_.data());
  const size_t reserve_start = memory_.bytes() - kReserveBytes;
  if (offset >= reserve_start) {
    reserve_.Give(offset - reserve_start);
  } else {
    allocator_.Give(offset);
  }
  ServeUrgent();
  Serve();
}

void ExtentPool::ServeUrgent() {
  while (auto* request = static_cast<Request*>(urgent_.front())) {
    if (!Cut(request)) return;
    urgent_.Remove(request);
    reactor_->Schedule(request);
  }
}

void ExtentPool::Serve() {
  auto* request = static_cast<Request*>(waiting_.front());
  auto* first = request;
  for (int looked = 0; request != nullptr && looked < kLookahead; ++looked) {
    auto* next = static_cast<Request*>(waiting_.after(request));
    const bool overtakes = request != first;
    if (overtakes && (first->overtaken_ >= kOvertakeMax ||
                      request->bytes_ >= first->bytes_)) {
      request = next;
      continue;
    }
    if (Cut(request)) {
      waiting_.Remove(request);
      reactor_->Schedule(request);
      if (overtakes) {
        ++first->overtaken_;
      } else {
        first = next;
      }
    } else if (overtakes || first->overtaken_ >= kOvertakeMax) {
      return;  // dry
    }
    request = next;
  }
}

}  // namespace sluice::transport
