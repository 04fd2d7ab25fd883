// A file or block device through the reactor's ring. The data path is in
// uring_device.cc, zeroing and discarding in uring_space.cc.
//
// Owned by who attached it, home one reactor. Every operation is a ring
// operation or a job of the blocking pool: nothing blocks the reactor.
// Bound: the callers' operations; copies for unaligned memory come from a
// BouncePool, at most kSpaceOperationsMax zeroings and discards run at once.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "blockdev/block_device.h"
#include "blockdev/bounce_pool.h"
#include "blockdev/io_result.h"
#include "blockdev/slots.h"

namespace sluice::blockdev {

// What works for giving back and clearing space, as probed at open. A call
// that turns out not to be supported is switched off and not tried again.
struct SpaceSupport {
  bool zero_range = false;     // fallocate ZERO_RANGE
  bool punch_hole = false;     // fallocate PUNCH_HOLE, reads as zeroes
  bool zero_ioctl = false;     // BLKZEROOUT
  bool discard_ioctl = false;  // BLKDISCARD
  // The calls above want offset and length in multiples of this.
  uint32_t alignment_bytes = 1;
};

// An opened file as a backing describes it; the descriptor is only borrowed
// and outlives the device.
struct UringFile {
  int fd = -1;
  bool is_device = false;
  bool dsync = true;  // writes take RWF_DSYNC (Linux 4.7)
  Geometry geometry;
  SpaceSupport space;
};

class UringDevice final : public BlockDevice {
 public:
  // On the reactor's thread.
  static absl::StatusOr<std::unique_ptr<UringDevice>> Create(
      const UringFile& file, Reactor* reactor, BlockingPool* pool);
  // No operation may be in flight.
  ~UringDevice() override;

  Task<IoResult> Read(uint64_t offset_bytes, IoBuffer buffer) override;
  Task<IoResult> Write(uint64_t offset_bytes, IoBuffer buffer,
                       bool fua) override;
  Task<IoResult> Flush() override;
  Task<IoResult> WriteZeroes(uint64_t offset_bytes, uint64_t length_bytes,
                             bool may_deallocate, bool fua) override;
  Task<IoResult> Discard(uint64_t offset_bytes, uint64_t length_bytes) override;

 private:
  // One transfer, as the kernel sees it.
  struct Transfer {
    IoDirection direction;
    bool fua;
    uint64_t offset_bytes;
    IoBuffer buffer;
  };

  UringDevice(const UringFile& file, Reactor* reactor, BlockingPool* pool,
              std::unique_ptr<BouncePool> bounce);

  // Any memory: the aligned go straight, the others are copied.
  Task<IoResult> Start(Transfer transfer);
  // Runs it to its end, however short the kernel's steps.
  Task<IoResult> Run(Transfer transfer);
  Task<IoResult> RunBounced(Transfer transfer);
  bool IsAligned(const IoBuffer& buffer) const;
  void Prepare(const Transfer& transfer, uint32_t done_bytes, bool dsync,
               io_uring_sqe* sqe) const;
  // What the error means here; a removed disk looks like its end or EIO.
  IoResult Failure(int error, IoDirection direction) const;

  // All of these return a positive errno or 0.
  Task<int> Fallocate(int mode, uint64_t offset_bytes, uint64_t length_bytes);
  Task<int> IoctlRange(unsigned long request, uint64_t offset_bytes,
                       uint64_t length_bytes);
  Task<int> DiscardPiece(uint64_t offset_bytes, uint64_t length_bytes);
  // By the best call that works; EOPNOTSUPP when none does.
  Task<int> ZeroPiece(uint64_t offset_bytes, uint64_t length_bytes,
                      bool may_deallocate);
  Task<IoResult> WriteZeroBuffers(uint64_t offset_bytes, uint64_t length_bytes);
  // The next piece of [offset, offset + length): whole units of the space
  // calls' alignment where it starts on one, else up to the next one.
  uint64_t PieceBytes(uint64_t offset_bytes, uint64_t length_bytes,
                      uint64_t piece_bytes_max) const;

  Reactor* const reactor_;
  BlockingPool* const pool_;
  const int fd_;
  const bool is_device_;
  RingFile file_;
  SpaceSupport space_;
  bool dsync_works_;                    // RWF_DSYNC, until it is refused
  std::unique_ptr<BouncePool> bounce_;  // null unless direct
  Slots space_slots_;
  uint32_t in_flight_ = 0;
};

}  // namespace sluice::blockdev
