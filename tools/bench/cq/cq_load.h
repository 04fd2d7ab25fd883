// What the load generator is to do, and what came of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::bench {

struct CqLoad {
  enum class Kind : uint8_t {
    kIdle,    // connected, nothing sent
    kClosed,  // every message's answer brings the next: as fast as it goes
    kOpen,    // Poisson arrivals at `rate`, whether or not answers come
    kWave,    // the same, on and off for `half_period_nanos` each
    kPaced,   // one at a time, after a random pause of up to `pause_max_nanos`
  };

  Kind kind = Kind::kClosed;
  double rate = 0;  // messages a second, in a wave's "on"
  int64_t half_period_nanos = 0;
  int64_t pause_max_nanos = 0;
  double seconds = 1;
};

struct CqLoadResult {
  uint64_t count = 0;  // messages answered
  double seconds = 0;
  int64_t client_cpu_nanos = 0;
  // From the time at which a message was to be sent to its answer, so that one
  // that had to wait for those before it has waited (no coordinated omission).
  std::vector<uint32_t> latency_nanos;
  // Of the first message after each pause of a wave.
  std::vector<uint32_t> after_pause_nanos;

  double per_second() const { return static_cast<double>(count) / seconds; }
};

// The sample at that share of them in microseconds, exact; 0 without samples.
// Reorders them.
double PercentileUs(std::vector<uint32_t>* samples, double share);

}  // namespace sluice::bench
