// An operation prepared for an io_uring, done by the system call that it stands
// for, on the calling thread: what sluice needs where there is no io_uring.
#pragma once

#include <liburing.h>

#include <atomic>
#include <cstdint>

namespace sluice {

// READ, WRITE, both with _FIXED and with RWF_* flags, FSYNC, FALLOCATE. Returns
// what cqe->res would be; -EINVAL for any other operation and for a fixed file.
// Blocks. A file or disk is not kept from its work; a stream (pipe, socket,
// eventfd) may never have anything, so while it is waited for, `cancelled` is
// looked at every 10 ms and then ends it with -ECANCELED. Two waits for one
// stream can still meet: the one that comes too late cannot be cancelled.
int32_t RunFileCall(const io_uring_sqe& sqe,
                    const std::atomic<bool>& cancelled);

}  // namespace sluice
