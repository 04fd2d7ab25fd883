#include "tests/support/plain_container.h"

#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/check.h"

namespace sluice {
namespace {

constexpr uid_t kNobody = 65534;
constexpr rlim_t kLockedBytes = 8 << 20;

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "which AUDIT_ARCH_?"
#endif

sock_filter Load(size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset));
}

// On to the next instruction when equal, over `skip` of them when not.
sock_filter SkipUnless(uint32_t value, uint8_t skip) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip);
}

// The other way round.
sock_filter SkipIf(uint32_t value, uint8_t skip) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, skip, 0);
}

sock_filter Return(uint32_t action) {
  return BPF_STMT(BPF_RET | BPF_K, action);
}

}  // namespace

void BecomeOrdinaryUser() {
  const rlimit locked = {kLockedBytes, kLockedBytes};
  SLUICE_CHECK(setrlimit(RLIMIT_MEMLOCK, &locked) == 0);
  if (geteuid() != 0) return;
  SLUICE_CHECK(setgroups(0, nullptr) == 0);
  SLUICE_CHECK(setgid(kNobody) == 0);
  SLUICE_CHECK(setuid(kNobody) == 0);
  // As after an exec: its own /proc can be read.
  SLUICE_CHECK(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
}

void RefuseIoUring(int error, UringCalls calls) {
  const bool all = calls == UringCalls::kAll;
  const auto setup = static_cast<uint32_t>(SYS_io_uring_setup);
  const auto enter = static_cast<uint32_t>(SYS_io_uring_enter);
  const auto reg = static_cast<uint32_t>(SYS_io_uring_register);
  std::array<sock_filter, 8> program = {
      Load(offsetof(seccomp_data, arch)),
      SkipUnless(kArchitecture, 4),
      Load(offsetof(seccomp_data, nr)),
      SkipIf(all ? setup : enter, 3),
      SkipIf(all ? reg : enter, 2),
      SkipIf(enter, 1),
      Return(SECCOMP_RET_ALLOW),
      Return(SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)),
  };
  const sock_fprog filter = {static_cast<unsigned short>(program.size()),
                             program.data()};
  SLUICE_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  SLUICE_CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

}  // namespace sluice
