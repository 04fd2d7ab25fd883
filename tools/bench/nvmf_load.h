// One measured load on an NVMe-oF target: a host with one thread, `queues` I/O
// queues and `depth` reads in flight on each, and what that cost either side.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/histogram.h"
#include "tests/conformance/raw_host.h"

namespace sluice::bench {

struct LoadOptions {
  conformance::RawHost host;
  uint32_t queues = 1;  // polled in turn by the one thread
  uint32_t depth = 32;  // 1 to 1024, and what the target allows
  uint32_t bytes = 4096;
  bool sequential = false;
  bool sleeping = false;  // waits for events; one queue only
  double seconds = 3;     // measured
  double warmup_seconds = 0.5;
  // Afterwards, with its queues connected and nothing in flight.
  double idle_seconds = 0;
  pid_t server_pid = 0;  // whose processor time counts; 0: nobody's
};

struct LoadResult {
  uint64_t count = 0;  // commands
  double seconds = 0;
  Histogram latency_nanos;
  int64_t client_cpu_nanos = 0;
  int64_t server_cpu_nanos = 0;
  double idle_core_share = 0;  // of one processor, by the server

  double iops() const { return static_cast<double>(count) / seconds; }
  double latency_us(double share) const {
    return static_cast<double>(latency_nanos.Percentile(share)) / 1e3;
  }
  double mean_us() const;
  // Microseconds for each 1,000 commands.
  double cpu_us_per_1000(int64_t cpu_nanos) const {
    return static_cast<double>(cpu_nanos) / static_cast<double>(count);
  }
};

// Errors: what could not be connected to (the raw client's), kInvalidArgument,
// kUnavailable when a queue broke, kDeadlineExceeded when a command had no
// answer for five seconds.
absl::StatusOr<LoadResult> RunLoad(const LoadOptions& options);

}  // namespace sluice::bench
