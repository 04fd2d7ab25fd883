// What a namespace stands on: bytes at offsets, asynchronously. A Backing is
// opened once per process; each reactor attaches a BlockDevice of its own to
// it, used on that reactor only. Knows no NVMe.
//
// Bound: the callers' commands; an operation allocates nothing but its frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/async.h"
#include "core/blocking_pool.h"
#include "core/reactor.h"
#include "core/task.h"

namespace sluice::blockdev {

// How an operation ended.
enum class IoResult : uint8_t {
  kOk,
  kOutOfRange,  // beyond the end
  kReadFault,   // the media could not be read
  kWriteFault,  // the media could not be written
  kNoSpace,     // ENOSPC, EDQUOT, EFBIG
  kReadOnly,
  kUnsupported,  // the backing cannot do this
  kGone,         // the device was removed
  kAborted,      // cancelled before it took effect
  kRetry,        // EAGAIN, ENOMEM: nothing was done, the host may try again
};

// Memory for one transfer: valid until the operation has ended. Aligned for
// O_DIRECT when the backing is `direct`; data of any alignment is copied.
struct IoBuffer {
  std::byte* data = nullptr;
  uint32_t length_bytes = 0;
  int ring_buffer = -1;  // index of the ring's fixed buffer it lies in, or -1
};

// What a backing is. All of it is fixed at open but the size, which may grow.
struct Geometry {
  uint64_t size_bytes = 0;
  uint32_t block_bytes = 512;           // the namespace's; a power of two
  uint32_t physical_block_bytes = 512;  // at least block_bytes
  uint32_t optimal_io_bytes = 0;        // 0: none known
  uint32_t buffer_alignment_bytes = 1;  // what O_DIRECT asks of memory
  bool direct = false;                  // the page cache is bypassed
  bool volatile_cache = false;          // a completed write needs a flush
  bool read_only = false;
  bool can_write_zeroes = false;  // without transferring zeroes
  bool can_discard = false;
  bool discard_reads_zero = false;  // discarded blocks read as zeroes
};

class BlockDevice {
 public:
  virtual ~BlockDevice() = default;

  // Offsets and lengths are multiples of block_bytes; a range that is not
  // inside size_bytes gives kOutOfRange. All suspend.
  virtual Task<IoResult> Read(uint64_t offset_bytes, IoBuffer buffer) = 0;
  // With `fua` the data is stable before the task ends.
  virtual Task<IoResult> Write(uint64_t offset_bytes, IoBuffer buffer,
                               bool fua) = 0;
  // Everything completed before is stable when it ends.
  virtual Task<IoResult> Flush() = 0;
  // Of any length. `may_deallocate` allows giving space back.
  virtual Task<IoResult> WriteZeroes(uint64_t offset_bytes,
                                     uint64_t length_bytes, bool may_deallocate,
                                     bool fua) = 0;
  // A hint. Never blocks the reactor, however long the range.
  virtual Task<IoResult> Discard(uint64_t offset_bytes,
                                 uint64_t length_bytes) = 0;

  // The device's bytes, size_bytes of them, where they are memory of this
  // process that stays in place: a Read may be left out. Null for others.
  virtual std::byte* memory() const { return nullptr; }

  const Geometry& geometry() const { return geometry_; }
  // The backing has grown; never called with less than before.
  void set_size_bytes(uint64_t size_bytes) {
    geometry_.size_bytes = size_bytes;
  }

 protected:
  explicit BlockDevice(const Geometry& geometry) : geometry_(geometry) {}
  // True when [offset, offset + length) lies inside the device.
  bool InRange(uint64_t offset_bytes, uint64_t length_bytes) const {
    return offset_bytes <= geometry_.size_bytes &&
           length_bytes <= geometry_.size_bytes - offset_bytes;
  }
  // kOk when that range may be written.
  IoResult CheckChange(uint64_t offset_bytes, uint64_t length_bytes) const {
    if (geometry_.read_only) return IoResult::kReadOnly;
    if (!InRange(offset_bytes, length_bytes)) return IoResult::kOutOfRange;
    return IoResult::kOk;
  }

  Geometry geometry_;
};

// What to open and how.
struct BackingOptions {
  std::string path;            // PATH, "null:SIZE" or "ram:SIZE"
  uint32_t block_bytes = 512;  // 512 or 4096
  bool read_only = false;
  bool shared = false;  // do not claim it exclusively
};

// How a backing is asked for its size.
enum class SizeAnswer {
  kFixed,     // need not be asked again
  kAtOnce,    // does not block: devices, and files on this machine's disks
  kMayBlock,  // files that another machine or program serves
};

// An opened file, device or piece of memory. Thread-safe but for Open and the
// destructor; outlives every BlockDevice attached to it.
class Backing {
 public:
  virtual ~Backing() = default;

  // May block. Errors name the path and say what to do.
  static absl::StatusOr<std::unique_ptr<Backing>> Open(
      const BackingOptions& options);

  const Geometry& geometry() const { return geometry_; }
  const std::string& path() const { return path_; }

  // A device for the reactor of this thread. `pool` is for what would block.
  virtual absl::StatusOr<std::unique_ptr<BlockDevice>> Attach(
      Reactor* reactor, BlockingPool* pool) = 0;
  // The size now, in whole blocks. May block where size_answer() says so.
  virtual absl::StatusOr<uint64_t> CurrentSizeBytes() const {
    return geometry_.size_bytes;
  }
  virtual SizeAnswer size_answer() const { return SizeAnswer::kFixed; }
  // Its memory, for somebody who sends from it: from now on it stays in place,
  // all of it. Empty where it is no memory. Before the first Attach.
  virtual absl::Span<std::byte> Lend() { return {}; }

 protected:
  Backing(std::string path, const Geometry& geometry)
      : path_(std::move(path)), geometry_(geometry) {}

  std::string path_;
  Geometry geometry_;
};

}  // namespace sluice::blockdev
