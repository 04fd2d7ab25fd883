#include "blockdev/ram_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "blockdev/limits.h"
#include "core/check.h"
#include "core/units.h"

namespace sluice::blockdev {
namespace {

constexpr uint64_t kPageBytes = 4096;

// Zeroes memory of the private anonymous mapping: whole pages are given back
// and read as zeroes when next touched, the edges are cleared. Of lent memory
// all is cleared: a device knows it by its pages.
void ClearMemory(std::byte* data, uint64_t length_bytes, bool lent) {
  if (lent) {
    std::memset(data, 0, length_bytes);
    return;
  }
  const auto start = reinterpret_cast<uintptr_t>(data);
  const uint64_t head_bytes =
      std::min(length_bytes, RoundUp(start, kPageBytes) - start);
  std::memset(data, 0, head_bytes);
  data += head_bytes;
  length_bytes -= head_bytes;
  const uint64_t pages_bytes = length_bytes - length_bytes % kPageBytes;
  if (pages_bytes > 0 && madvise(data, pages_bytes, MADV_DONTNEED) != 0) {
    std::memset(data, 0, pages_bytes);
  }
  std::memset(data + pages_bytes, 0, length_bytes - pages_bytes);
}

// The same as a job for the blocking pool.
struct ClearJob {
  std::byte* data;
  uint64_t length_bytes;
  bool lent;

  void operator()() const { ClearMemory(data, length_bytes, lent); }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backing>> RamBacking::Open(
    const BackingOptions& options, uint64_t size_bytes) {
  void* const memory = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return absl::ErrnoToStatus(
        errno,
        absl::StrCat(options.path, ": no room for ", FormatBytes(size_bytes),
                     " of address space; choose a smaller size"));
  }
  Geometry geometry;
  geometry.size_bytes = size_bytes;
  geometry.block_bytes = options.block_bytes;
  geometry.physical_block_bytes = options.block_bytes;
  geometry.read_only = options.read_only;
  geometry.can_write_zeroes = true;
  geometry.can_discard = true;
  geometry.discard_reads_zero = true;
  return std::unique_ptr<Backing>(
      new RamBacking(options.path, geometry, static_cast<std::byte*>(memory)));
}

RamBacking::~RamBacking() { munmap(memory_, geometry_.size_bytes); }

absl::StatusOr<std::unique_ptr<BlockDevice>> RamBacking::Attach(
    Reactor* reactor, BlockingPool* pool) {
  return std::unique_ptr<BlockDevice>(
      new RamDevice(geometry_, memory_, lent_, reactor, pool));
}

absl::Span<std::byte> RamBacking::Lend() {
  lent_ = true;
  return absl::MakeSpan(memory_, geometry_.size_bytes);
}

Task<IoResult> RamDevice::Read(uint64_t offset_bytes, IoBuffer buffer) {
  if (!InRange(offset_bytes, buffer.length_bytes)) {
    co_return IoResult::kOutOfRange;
  }
  std::memcpy(buffer.data, memory_ + offset_bytes, buffer.length_bytes);
  co_return IoResult::kOk;
}

Task<IoResult> RamDevice::Write(uint64_t offset_bytes, IoBuffer buffer, bool) {
  const IoResult check = CheckChange(offset_bytes, buffer.length_bytes);
  if (check != IoResult::kOk) co_return check;
  std::memcpy(memory_ + offset_bytes, buffer.data, buffer.length_bytes);
  co_return IoResult::kOk;
}

Task<IoResult> RamDevice::Flush() { co_return IoResult::kOk; }

Task<IoResult> RamDevice::WriteZeroes(uint64_t offset_bytes,
                                      uint64_t length_bytes, bool, bool) {
  return Clear(offset_bytes, length_bytes);
}

Task<IoResult> RamDevice::Discard(uint64_t offset_bytes,
                                  uint64_t length_bytes) {
  return Clear(offset_bytes, length_bytes);
}

Task<IoResult> RamDevice::Clear(uint64_t offset_bytes, uint64_t length_bytes) {
  SLUICE_DCHECK_ON(reactor_);
  const IoResult check = CheckChange(offset_bytes, length_bytes);
  if (check != IoResult::kOk) co_return check;
  if (length_bytes <= kRamInlineBytes) {
    ClearMemory(memory_ + offset_bytes, length_bytes, lent_);
    co_return IoResult::kOk;
  }
  while (length_bytes > 0) {
    const uint64_t piece_bytes = std::min(length_bytes, kRamPieceBytes);
    const ClearJob job{memory_ + offset_bytes, piece_bytes, lent_};
    CallBlocking call(pool_, job);
    co_await call;
    offset_bytes += piece_bytes;
    length_bytes -= piece_bytes;
  }
  co_return IoResult::kOk;
}

}  // namespace sluice::blockdev
