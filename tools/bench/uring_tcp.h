// raw_tcp's loops with an io_uring in place of recv, send and epoll: what the
// provider's sockets would gain by one. Files and the ring itself are
// registered: as cheap as it gets.
#pragma once

#include <cstddef>

#include "tools/bench/bench_run.h"
#include "tools/bench/raw_tcp.h"

namespace sluice::bench {

struct UringOptions {
  bool defer = true;      // DEFER_TASKRUN; else COOP_TASKRUN
  bool multishot = true;  // receives, into provided buffers; else one at a time
};

// One stream in blocks. A multishot receive has its bytes copied to where a
// plain one reads them: an RDMA Write's have a place of their own.
RunResult UringStream(const RawOptions& options, const UringOptions& uring);
// RawEcho's, and with one connection RawPingPong's. What is to be sent goes
// with the wait for more: one system call.
RunResult UringEcho(const RawOptions& options, const UringOptions& uring,
                    size_t bytes, size_t connections, bool polling);

}  // namespace sluice::bench
