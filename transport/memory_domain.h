// A protection domain and the memory registered in it: the reactor's data
// extents, and blocks for receives and responses that grow by chunks. One per
// device and reactor; where a device's read sinks must be writable by the peer
// (DeviceTraits::private_read_sinks), one per queue pair.
//
// Home: its reactor. Bound: chunks as many as the admitted queues need; a
// chunk is kept for the next queue.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "transport/buddy_allocator.h"
#include "transport/device.h"
#include "transport/extent_pool.h"
#include "transport/mapped_memory.h"
#include "transport/verbs_ptr.h"

namespace sluice::transport {

// Registered memory of a queue pair. Empty when data is null.
struct RegisteredBlock {
  std::byte* data = nullptr;
  size_t bytes = 0;
  uint32_t lkey = 0;
  uint32_t chunk = 0;
};

class MemoryDomain {
 public:
  // Registers the whole of `extents`, which outlives the domain. May block for
  // as long as pinning the memory takes. Errors: ibv_alloc_pd's, ibv_reg_mr's.
  static absl::StatusOr<std::unique_ptr<MemoryDomain>> Create(
      const VerbsApi& api, ibv_context* context, const DeviceTraits& traits,
      ExtentPool* extents);

  ibv_pd* pd() const { return pd_.get(); }
  ExtentPool* extents() const { return extents_; }
  // Registers memory of somebody else's to send from, which outlives the
  // domain. Errors: ibv_reg_mr's.
  absl::Status Borrow(absl::Span<std::byte> memory);
  // True when all of it can be sent from.
  bool Holds(const std::byte* data, size_t bytes) const {
    return RegionOf(data, bytes) != nullptr;
  }
  // Local key of an extent of the pool, or of a piece of borrowed memory.
  uint32_t lkey_of(const Extent& extent) const {
    const ibv_mr* mr = RegionOf(extent.data, extent.bytes);
    return mr != nullptr ? mr->lkey : 0;
  }

  // Zeroed or used before; page aligned. Registers another chunk when needed.
  absl::StatusOr<RegisteredBlock> Take(size_t bytes);
  void Give(const RegisteredBlock& block);
  size_t registered_bytes() const;

 private:
  struct Chunk {
    MappedMemory memory;
    VerbsPtr<ibv_mr> mr;
    BuddyAllocator allocator;
  };
  static constexpr size_t kChunkBytes = size_t{16} << 20;

  MemoryDomain(const VerbsApi& api, VerbsPtr<ibv_pd> pd, ExtentPool* extents)
      : api_(api), pd_(std::move(pd)), extents_(extents) {}
  const ibv_mr* RegionOf(const std::byte* data, size_t bytes) const;
  absl::StatusOr<VerbsPtr<ibv_mr>> Register(std::byte* data, size_t bytes,
                                            int access);

  const VerbsApi& api_;
  VerbsPtr<ibv_pd> pd_;
  ExtentPool* extents_;
  VerbsPtr<ibv_mr> data_mr_;
  std::vector<VerbsPtr<ibv_mr>> borrowed_;
  std::vector<Chunk> chunks_;
};

}  // namespace sluice::transport
