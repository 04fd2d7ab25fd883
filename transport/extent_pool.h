// Data buffers of one reactor: contiguous extents cut from an arena that is
// also registered with the ring and with every device. A command asks for all
// it needs at once and waits in arrival order when the pool is dry; it never
// fails for want of a buffer, and it never holds one while it waits for more,
// so that nothing deadlocks.
//
// Size-aware: while a large request waits, small ones that fit may overtake it
// at most kOvertakeMax times; then everybody waits for it. Nobody starves. A
// reserve is kept for urgent requests (admin commands), which thereby never
// wait for I/O.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "core/reactor.h"
#include "transport/buddy_allocator.h"
#include "transport/mapped_memory.h"

namespace sluice::transport {

struct Extent {
  std::byte* data = nullptr;
  uint32_t bytes = 0;    // as asked for
  int ring_buffer = -1;  // index of the ring's fixed buffer, or -1

  bool empty() const { return data == nullptr; }
};

class ExtentPool {
 public:
  // Maps `bytes`, registers them with the reactor's ring where that is allowed.
  // Errors: mmap's.
  static absl::StatusOr<std::unique_ptr<ExtentPool>> Create(Reactor* reactor,
                                                            size_t bytes);
  ~ExtentPool();
  ExtentPool(const ExtentPool&) = delete;
  ExtentPool& operator=(const ExtentPool&) = delete;

  // co_await of one gives the extent. `bytes` is at most max_bytes(). Urgent
  // requests of at most kUrgentMaxBytes draw on the reserve too.
  class Request : public Waiter {
   public:
    Request(ExtentPool* pool, uint32_t bytes, bool urgent);
    bool await_ready() { return pool_->TryGrant(this); }
    void await_suspend(std::coroutine_handle<> handle) {
      frame = handle;
      (urgent_ ? pool_->urgent_ : pool_->waiting_).PushBack(this);
      ++pool_->waits_;
    }
    Extent await_resume() const { return extent_; }

   private:
    friend class ExtentPool;
    ExtentPool* pool_;
    uint32_t bytes_;
    bool urgent_;
    uint32_t overtaken_ = 0;
    Extent extent_;
  };
  Request Take(uint32_t bytes) { return Request(this, bytes, false); }
  Request TakeUrgent(uint32_t bytes) { return Request(this, bytes, true); }
  void Give(const Extent& extent);

  std::byte* data() const { return memory_.data(); }
  // All of it, reserve included: what is registered.
  size_t total_bytes() const { return memory_.bytes(); }
  size_t used_bytes() const {
    return allocator_.used_bytes() + reserve_.used_bytes();
  }
  // The largest extent that can be had: a block of half the pool.
  size_t max_bytes() const { return allocator_.total_bytes() / 2; }
  uint64_t waits() const { return waits_; }
  bool registered_with_ring() const { return registered_with_ring_; }

 private:
  static constexpr uint32_t kOvertakeMax = 64;
  static constexpr uint32_t kUrgentMaxBytes = 64 * 1024;
  static constexpr size_t kReserveBytes = size_t{1} << 20;
  // Waiters looked at when one is served.
  static constexpr int kLookahead = 32;
  static constexpr size_t kPieceBytes = size_t{1} << 30;  // a fixed buffer's

  ExtentPool(Reactor* reactor, MappedMemory memory);
  void RegisterWithRing();
  // Cuts it out now, if that is fair and possible.
  bool TryGrant(Request* request);
  bool Cut(Request* request);
  void Place(Request* request, size_t offset);
  void ServeUrgent();
  void Serve();

  Reactor* reactor_;
  MappedMemory memory_;
  BuddyAllocator allocator_;  // the front of the memory
  BuddyAllocator reserve_;    // its end
  int ring_buffers_[64];
  bool registered_with_ring_ = false;
  IntrusiveList<Waiter> waiting_;
  IntrusiveList<Waiter> urgent_;
  uint64_t waits_ = 0;
};

}  // namespace sluice::transport
