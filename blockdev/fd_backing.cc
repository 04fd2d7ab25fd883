#include "blockdev/fd_backing.h"

#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/status_macros.h"

namespace sluice::blockdev {

namespace {

// File systems that have the size of an open file in memory.
SizeAnswer SizeAnswerOf(int fd) {
  struct statfs info {};
  if (fstatfs(fd, &info) != 0) return SizeAnswer::kMayBlock;
  switch (info.f_type) {
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case TMPFS_MAGIC:
      return SizeAnswer::kAtOnce;
    default:
      return SizeAnswer::kMayBlock;
  }
}

}  // namespace

FdBacking::FdBacking(std::string path, OpenedPath opened,
                     const Geometry& geometry, const SpaceSupport& space)
    : Backing(std::move(path), geometry),
      fd_(std::move(opened.fd)),
      is_device_(opened.is_device),
      space_(space),
      size_answer_(is_device_ ? SizeAnswer::kAtOnce : SizeAnswerOf(fd_.get())) {
}

absl::StatusOr<std::unique_ptr<BlockDevice>> FdBacking::Attach(
    Reactor* reactor, BlockingPool* pool) {
  UringFile file;
  file.fd = fd_.get();
  file.is_device = is_device_;
  file.geometry = geometry_;
  file.space = space_;
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<BlockDevice> device,
                          UringDevice::Create(file, reactor, pool));
  return device;
}

absl::StatusOr<uint64_t> FdBacking::CurrentSizeBytes() const {
  SLUICE_ASSIGN_OR_RETURN(const uint64_t size_bytes,
                          SizeBytes(fd_.get(), is_device_, path_));
  return size_bytes - size_bytes % geometry_.block_bytes;
}

absl::StatusOr<uint64_t> SizeBytes(int fd, bool is_device,
                                   const std::string& path) {
  if (is_device) {
    uint64_t size_bytes = 0;
    if (ioctl(fd, BLKGETSIZE64, &size_bytes) == 0) return size_bytes;
    return absl::ErrnoToStatus(errno, absl::StrCat("BLKGETSIZE64 ", path));
  }
  struct stat info {};
  if (fstat(fd, &info) == 0) return static_cast<uint64_t>(info.st_size);
  return absl::ErrnoToStatus(errno, absl::StrCat("fstat ", path));
}

}  // namespace sluice::blockdev
