#include "blockdev/file_backing.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "blockdev/direct_io.h"
#include "core/status_macros.h"
#include "core/units.h"

namespace sluice::blockdev {
namespace {

constexpr uint32_t kPhysicalBlockMax = 64 << 10;

// A nameless file beside this one, in the same file system: to try things on.
UniqueFd OpenScratchFile(int fd) {
  const std::string link = absl::StrCat("/proc/self/fd/", fd);
  char target[PATH_MAX];
  const ssize_t length = readlink(link.c_str(), target, sizeof(target));
  if (length <= 0) return UniqueFd();
  const std::string path(target, static_cast<size_t>(length));
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return UniqueFd();
  const std::string folder = path.substr(0, std::max<size_t>(1, slash));
  UniqueFd scratch(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  struct stat ours {};
  struct stat theirs {};
  if (!scratch.ok() || fstat(fd, &ours) != 0 ||
      fstat(scratch.get(), &theirs) != 0 || ours.st_dev != theirs.st_dev) {
    return UniqueFd();
  }
  return scratch;
}

bool Works(int fd, int mode, off_t offset, off_t length) {
  return fallocate(fd, mode | FALLOC_FL_KEEP_SIZE, offset, length) == 0 ||
         errno == ENOSPC || errno == EDQUOT;
}

// Tries the calls where no data is: on a scratch file or, where there cannot
// be one, behind the end. ZERO_RANGE allocates, so it is tried on a scratch
// file only, and not used without one.
SpaceSupport ProbeSpace(int fd, uint64_t size_bytes, uint32_t block_bytes) {
  SpaceSupport space;
  const auto end = static_cast<off_t>(size_bytes);
  const auto length = static_cast<off_t>(block_bytes);
  const UniqueFd scratch = OpenScratchFile(fd);
  if (!scratch.ok()) {
    space.punch_hole = Works(fd, FALLOC_FL_PUNCH_HOLE, end, length);
    return space;
  }
  space.punch_hole = Works(scratch.get(), FALLOC_FL_PUNCH_HOLE, 0, length);
  space.zero_range = Works(scratch.get(), FALLOC_FL_ZERO_RANGE, 0, length);
  return space;
}

uint32_t PhysicalBlockBytes(int fd, uint32_t block_bytes) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return block_bytes;
  const auto bytes = static_cast<uint64_t>(info.st_blksize);
  if (!IsPowerOfTwo(bytes) || bytes > kPhysicalBlockMax) return block_bytes;
  return std::max(block_bytes, static_cast<uint32_t>(bytes));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backing>> FileBacking::Open(
    const BackingOptions& options, OpenedPath opened) {
  const int fd = opened.fd.get();
  SLUICE_ASSIGN_OR_RETURN(const uint64_t size_bytes,
                          SizeBytes(fd, false, options.path));
  SLUICE_RETURN_IF_ERROR(CheckSize(options, size_bytes));

  Geometry geometry;
  geometry.size_bytes = size_bytes;
  geometry.block_bytes = options.block_bytes;
  geometry.physical_block_bytes = PhysicalBlockBytes(fd, options.block_bytes);
  geometry.volatile_cache = true;
  geometry.read_only = opened.read_only;
  ChooseDirectIo(fd, options.path, 0, &geometry);
  SpaceSupport space;
  if (!opened.read_only) {
    space = ProbeSpace(fd, size_bytes, options.block_bytes);
  }
  geometry.can_write_zeroes = space.zero_range || space.punch_hole;
  geometry.can_discard = space.punch_hole;
  geometry.discard_reads_zero = space.punch_hole;
  return std::unique_ptr<Backing>(
      new FileBacking(options.path, std::move(opened), geometry, space));
}

}  // namespace sluice::blockdev
