// What a plain container leaves of the privileges of a test: a user like any
// other, the default limit on locked memory, and a seccomp filter as container
// engines set one, under which io_uring's system calls fail. For good, so in a
// process or thread of the test's own.
#pragma once

namespace sluice {

// 8 MiB of locked memory; root becomes uid and gid 65534, without capabilities.
// For the whole process. CHECKs.
void BecomeOrdinaryUser();

enum class UringCalls { kAll, kEnterOnly };

// The calls fail with `error`, for the calling thread and those that it starts
// from now on. Needs no privileges. CHECKs.
void RefuseIoUring(int error, UringCalls calls = UringCalls::kAll);

}  // namespace sluice
