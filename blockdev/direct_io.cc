#include "blockdev/direct_io.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <optional>

#include "blockdev/limits.h"
#include "core/log.h"

namespace sluice::blockdev {
namespace {

// What O_DIRECT asks of memory and of offsets and lengths.
struct Alignment {
  uint32_t memory_bytes;
  uint32_t offset_bytes;
};

bool SetDirect(int fd, bool direct) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return false;
  return fcntl(fd, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

// tmpfs takes the flag (since 6.6) and ignores it.
bool IsInMemory(int fd) {
  struct statfs fs {};
  if (fstatfs(fd, &fs) != 0) return false;
  return fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC;
}

// Kernels before 6.1 and some file systems do not tell: try to read. The
// descriptor is O_DIRECT.
std::optional<Alignment> ProbeByReading(int fd) {
  alignas(kBufferAlignmentMax) std::byte memory[2 * kBufferAlignmentMax];
  for (const uint32_t bytes : {uint32_t{512}, kBufferAlignmentMax}) {
    if (pread(fd, memory + bytes, bytes, 0) >= 0)
      return Alignment{bytes, bytes};
  }
  return std::nullopt;
}

// Nothing: no O_DIRECT here. Leaves the descriptor O_DIRECT otherwise.
std::optional<Alignment> QueryAlignment(int fd, uint32_t device_block_bytes) {
  if (device_block_bytes == 0 && IsInMemory(fd)) return std::nullopt;
  struct statx info {};
  const bool told = statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) == 0 &&
                    (info.stx_mask & STATX_DIOALIGN) != 0;
  if (told && info.stx_dio_offset_align == 0) return std::nullopt;
  if (!SetDirect(fd, true)) return std::nullopt;
  if (told) {
    return Alignment{info.stx_dio_mem_align, info.stx_dio_offset_align};
  }
  if (device_block_bytes != 0) {
    return Alignment{device_block_bytes, device_block_bytes};
  }
  return ProbeByReading(fd);
}

}  // namespace

void ChooseDirectIo(int fd, const std::string& path,
                    uint32_t device_block_bytes, Geometry* geometry) {
  geometry->direct = false;
  geometry->buffer_alignment_bytes = 1;
  const std::optional<Alignment> alignment =
      QueryAlignment(fd, device_block_bytes);
  if (!alignment || alignment->memory_bytes > kBufferAlignmentMax) {
    SetDirect(fd, false);
    SLUICE_LOG(kInfo) << "no O_DIRECT here, going through the page cache"
                      << KV("path", path);
    return;
  }
  if (alignment->offset_bytes > geometry->block_bytes) {
    SetDirect(fd, false);
    SLUICE_LOG(kWarning)
        << "block size is below what O_DIRECT asks for, going through the "
           "page cache: small writes become read, modify, write"
        << KV("path", path) << KV("block_bytes", geometry->block_bytes)
        << KV("direct_bytes", alignment->offset_bytes);
    return;
  }
  geometry->direct = true;
  geometry->buffer_alignment_bytes =
      std::max<uint32_t>(1, alignment->memory_bytes);
}

}  // namespace sluice::blockdev
