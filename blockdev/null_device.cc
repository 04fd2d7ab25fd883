#include "blockdev/null_device.h"

#include <cstring>

namespace sluice::blockdev {

absl::StatusOr<std::unique_ptr<Backing>> NullBacking::Open(
    const BackingOptions& options, uint64_t size_bytes) {
  Geometry geometry;
  geometry.size_bytes = size_bytes;
  geometry.block_bytes = options.block_bytes;
  geometry.physical_block_bytes = options.block_bytes;
  geometry.read_only = options.read_only;
  geometry.can_write_zeroes = true;
  geometry.can_discard = true;
  geometry.discard_reads_zero = true;
  return std::unique_ptr<Backing>(new NullBacking(options.path, geometry));
}

absl::StatusOr<std::unique_ptr<BlockDevice>> NullBacking::Attach(
    Reactor*, BlockingPool*) {
  return std::unique_ptr<BlockDevice>(new NullDevice(geometry_));
}

Task<IoResult> NullDevice::Read(uint64_t offset_bytes, IoBuffer buffer) {
  if (!InRange(offset_bytes, buffer.length_bytes)) {
    co_return IoResult::kOutOfRange;
  }
  std::memset(buffer.data, 0, buffer.length_bytes);
  co_return IoResult::kOk;
}

Task<IoResult> NullDevice::Write(uint64_t offset_bytes, IoBuffer buffer, bool) {
  co_return CheckChange(offset_bytes, buffer.length_bytes);
}

Task<IoResult> NullDevice::Flush() { co_return IoResult::kOk; }

Task<IoResult> NullDevice::WriteZeroes(uint64_t offset_bytes,
                                       uint64_t length_bytes, bool, bool) {
  co_return CheckChange(offset_bytes, length_bytes);
}

Task<IoResult> NullDevice::Discard(uint64_t offset_bytes,
                                   uint64_t length_bytes) {
  co_return CheckChange(offset_bytes, length_bytes);
}

}  // namespace sluice::blockdev
