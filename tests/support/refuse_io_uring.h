// A seccomp filter as container engines set one: io_uring's system calls fail.
#pragma once

namespace sluice {

enum class UringCalls { kAll, kEnterOnly };

// For the calling thread and those it starts from now on, for good; without
// privileges. The calls fail with `error`. CHECKs.
void RefuseIoUring(int error, UringCalls calls = UringCalls::kAll);

}  // namespace sluice
