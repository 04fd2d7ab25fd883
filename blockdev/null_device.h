// "null:SIZE": takes every write and keeps nothing; for measuring what is not
// the disk. Reads give zeroes: leaving the buffer as it is would show one
// host's data to another. Operations end before they suspend.
#pragma once

#include <memory>

#include "blockdev/block_device.h"

namespace sluice::blockdev {

class NullBacking final : public Backing {
 public:
  static absl::StatusOr<std::unique_ptr<Backing>> Open(
      const BackingOptions& options, uint64_t size_bytes);

  absl::StatusOr<std::unique_ptr<BlockDevice>> Attach(
      Reactor* reactor, BlockingPool* pool) override;

 private:
  using Backing::Backing;
};

class NullDevice final : public BlockDevice {
 public:
  explicit NullDevice(const Geometry& geometry) : BlockDevice(geometry) {}

  Task<IoResult> Read(uint64_t offset_bytes, IoBuffer buffer) override;
  Task<IoResult> Write(uint64_t offset_bytes, IoBuffer buffer,
                       bool fua) override;
  Task<IoResult> Flush() override;
  Task<IoResult> WriteZeroes(uint64_t offset_bytes, uint64_t length_bytes,
                             bool may_deallocate, bool fua) override;
  Task<IoResult> Discard(uint64_t offset_bytes, uint64_t length_bytes) override;
};

}  // namespace sluice::blockdev
