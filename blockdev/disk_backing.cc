#include "blockdev/disk_backing.h"

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "blockdev/direct_io.h"
#include "blockdev/queue_attributes.h"
#include "core/status_macros.h"

namespace sluice::blockdev {
namespace {

// An unsigned property of the device, 0 when it does not tell.
uint32_t Property(int fd, unsigned long request) {
  unsigned int value = 0;
  return ioctl(fd, request, &value) == 0 ? value : 0;
}

// Zeroing always works (the kernel writes zeroes where the device cannot); a
// hole is one that the device makes by itself.
SpaceSupport ProbeSpace(dev_t device, uint32_t logical_bytes) {
  SpaceSupport space;
  space.zero_range = true;
  space.zero_ioctl = true;
  space.punch_hole = QueueNumber(device, "write_zeroes_max_bytes") > 0;
  space.discard_ioctl = QueueNumber(device, "discard_max_bytes") > 0;
  space.alignment_bytes = logical_bytes;
  return space;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backing>> DiskBacking::Open(
    const BackingOptions& options, OpenedPath opened) {
  const int fd = opened.fd.get();
  struct stat info {};
  int logical_bytes = 0;
  if (fstat(fd, &info) != 0 || ioctl(fd, BLKSSZGET, &logical_bytes) != 0 ||
      logical_bytes <= 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("BLKSSZGET ", options.path));
  }
  int read_only = 0;
  if (ioctl(fd, BLKROGET, &read_only) == 0 && read_only != 0) {
    opened.read_only = true;
  }
  SLUICE_ASSIGN_OR_RETURN(const uint64_t size_bytes,
                          SizeBytes(fd, true, options.path));
  SLUICE_RETURN_IF_ERROR(CheckSize(options, size_bytes));

  Geometry geometry;
  geometry.size_bytes = size_bytes;
  geometry.block_bytes = options.block_bytes;
  geometry.physical_block_bytes =
      std::max(options.block_bytes, Property(fd, BLKPBSZGET));
  geometry.optimal_io_bytes = Property(fd, BLKIOOPT);
  geometry.read_only = opened.read_only;
  const auto device_block_bytes = static_cast<uint32_t>(logical_bytes);
  ChooseDirectIo(fd, options.path, device_block_bytes, &geometry);
  geometry.volatile_cache =
      !geometry.direct ||
      QueueText(info.st_rdev, "write_cache") != "write through";
  SpaceSupport space;
  if (!opened.read_only) space = ProbeSpace(info.st_rdev, device_block_bytes);
  geometry.can_write_zeroes = space.punch_hole;
  geometry.can_discard = space.discard_ioctl;
  geometry.discard_reads_zero = false;
  return std::unique_ptr<Backing>(
      new DiskBacking(options.path, std::move(opened), geometry, space));
}

}  // namespace sluice::blockdev
