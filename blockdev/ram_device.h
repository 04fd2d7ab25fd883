// "ram:SIZE": memory of this process, gone with it. All reactors share it;
// concurrent transfers of one block mix, as on any disk. Memory is taken when
// first written (without reservation) and given back by discard and zeroing,
// unless it was lent: then RDMA devices hold all of it.
//
// Reads, writes and small zeroings end before they suspend; larger ones run in
// the blocking pool.
#pragma once

#include <memory>
#include <string>

#include "blockdev/block_device.h"

namespace sluice::blockdev {

class RamBacking final : public Backing {
 public:
  static absl::StatusOr<std::unique_ptr<Backing>> Open(
      const BackingOptions& options, uint64_t size_bytes);
  ~RamBacking() override;

  absl::StatusOr<std::unique_ptr<BlockDevice>> Attach(
      Reactor* reactor, BlockingPool* pool) override;
  absl::Span<std::byte> Lend() override;

 private:
  RamBacking(std::string path, const Geometry& geometry, std::byte* memory)
      : Backing(std::move(path), geometry), memory_(memory) {}

  std::byte* const memory_;
  bool lent_ = false;
};

class RamDevice final : public BlockDevice {
 public:
  // `memory` is the backing's, which outlives the device; `lent`: it must stay
  // in place.
  RamDevice(const Geometry& geometry, std::byte* memory, bool lent,
            Reactor* reactor, BlockingPool* pool)
      : BlockDevice(geometry),
        memory_(memory),
        lent_(lent),
        reactor_(reactor),
        pool_(pool) {}

  Task<IoResult> Read(uint64_t offset_bytes, IoBuffer buffer) override;
  Task<IoResult> Write(uint64_t offset_bytes, IoBuffer buffer,
                       bool fua) override;
  Task<IoResult> Flush() override;
  Task<IoResult> WriteZeroes(uint64_t offset_bytes, uint64_t length_bytes,
                             bool may_deallocate, bool fua) override;
  Task<IoResult> Discard(uint64_t offset_bytes, uint64_t length_bytes) override;
  std::byte* memory() const override { return lent_ ? memory_ : nullptr; }

 private:
  Task<IoResult> Clear(uint64_t offset_bytes, uint64_t length_bytes);

  std::byte* const memory_;
  const bool lent_;
  Reactor* const reactor_;
  BlockingPool* const pool_;
};

}  // namespace sluice::blockdev
