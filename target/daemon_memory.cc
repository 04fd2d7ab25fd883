#include "target/daemon_memory.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>

#include "absl/strings/str_cat.h"
#include "core/units.h"
#include "nvme/limits.h"
#include "transport/limits.h"
#include "transport/receive_slots.h"

namespace sluice::target {
namespace {

// Receives are registered in chunks of this size, the first with the first
// queue of a reactor (transport/memory_domain.h).
constexpr uint64_t kReceiveChunkBytes = 16 * kMiB;
constexpr uint64_t kPageBytes = 4096;
// PROC_USER_INIT_INO of the kernel: capabilities of another user namespace do
// not lift the limit.
constexpr ino_t kInitialUserNamespace = 0xEFFFFFFD;

uint64_t ReceiveBytes(const TargetOptions& options) {
  const uint64_t capsule_bytes =
      nvme::kSqeBytes + RoundUp(options.in_capsule_bytes, kPageBytes);
  const uint64_t queue_bytes = options.queue_depth * capsule_bytes;
  uint64_t bytes = RoundUp(queue_bytes, kReceiveChunkBytes);
  if (options.shared_receives > 0) {
    // Beside those of the admin queue: blocks of powers of two, in chunks.
    const uint64_t count =
        options.shared_receives + transport::kSharedReceivesSpare;
    bytes += RoundUp(
        std::bit_ceil(count * nvme::kSqeBytes) +
            std::bit_ceil(count *
                          RoundUp(options.in_capsule_bytes,
                                  uint64_t{transport::kInCapsuleAlignment})),
        kReceiveChunkBytes);
  }
  return options.reactor_count() * bytes;
}

bool HasIpcLock() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  if ((data[0].effective & (1U << CAP_IPC_LOCK)) == 0) return false;
  struct stat name_space {};
  if (stat("/proc/self/ns/user", &name_space) != 0) return true;
  return name_space.st_ino == kInitialUserNamespace;
}

uint64_t ToBytes(rlim_t limit) {
  return limit == RLIM_INFINITY ? UINT64_MAX : limit;
}

}  // namespace

uint64_t LockedMemoryNeed(const TargetOptions& options) {
  return 2 * options.buffer_pool_bytes + ReceiveBytes(options);
}

LockedMemoryLimit RaiseLockedMemoryLimit() {
  // Where we may, altogether: some drivers (siw of kernel 6.1) look at the
  // limit and at no capability.
  const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
  if (setrlimit(RLIMIT_MEMLOCK, &none) == 0) return {UINT64_MAX, UINT64_MAX};
  if (HasIpcLock()) return {UINT64_MAX, UINT64_MAX};
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return {UINT64_MAX, UINT64_MAX};
  if (limit.rlim_cur != limit.rlim_max) {
    const rlimit raised{limit.rlim_max, limit.rlim_max};
    if (setrlimit(RLIMIT_MEMLOCK, &raised) == 0) limit = raised;
  }
  return {ToBytes(limit.rlim_cur), ToBytes(limit.rlim_max)};
}

absl::Status CheckLockedMemory(const TargetOptions& options,
                               const LockedMemoryLimit& limit) {
  const uint64_t need = LockedMemoryNeed(options);
  if (need <= limit.soft_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "locked memory: ", FormatBytes(need), " needed (2 x --buffer-pool ",
      FormatBytes(options.buffer_pool_bytes), " + receives ",
      FormatBytes(ReceiveBytes(options)), "), the limit is ",
      FormatBytes(limit.soft_bytes), "; raise it (ulimit -l ", need / kKiB,
      " as root, LimitMEMLOCK= of the systemd unit, memlock in "
      "/etc/security/limits.conf), grant CAP_IPC_LOCK, or lower "
      "--buffer-pool"));
}

}  // namespace sluice::target
