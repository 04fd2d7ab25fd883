// What plain TCP sockets do on the same machine, in the same run: the yardstick
// of the iWARP provider.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tools/bench/bench_run.h"

namespace sluice::bench {

struct RawOptions {
  std::string address = "127.0.0.1";
  double seconds = 1;
  size_t block_bytes = 128 * 1024;  // of a stream; the default is iperf3's
};

// One stream in blocks, both ends in blocking calls: as iperf3.
RunResult RawStream(const RawOptions& options);
// Messages of `bytes` back and forth; `polling`: neither side sleeps.
RunResult RawPingPong(const RawOptions& options, size_t bytes, bool polling);
// The same on many connections at once, each side one thread that epoll wakes.
RunResult RawEcho(const RawOptions& options, size_t bytes, size_t connections,
                  bool polling);
// Messages of `bytes`, each copied into a batch of 64 KiB and out of one, each
// batch one system call.
RunResult RawMessages(const RawOptions& options, size_t bytes);
// Requests of one size, each answered with a response of another; `depth` of
// them always in flight, neither side sleeps. Each side makes one system call
// of what it has. Counts responses; samples are their latencies.
RunResult RawRequests(const RawOptions& options, size_t request_bytes,
                      size_t response_bytes, size_t depth);

}  // namespace sluice::bench
