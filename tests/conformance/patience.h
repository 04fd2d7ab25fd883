// How long the blocking client waits. Every wait has a deadline; all of them
// grow with one factor, for emulated machines (CONFORMANCE_SLOW, --slow).
// Thread-safe once SetSlowness has been called.
#pragma once

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace sluice::conformance {

// 1 on a real machine; at least 1.
void SetSlowness(double factor);
absl::Duration Scaled(absl::Duration wait);

// The wait of everything that has no better one.
inline constexpr absl::Duration kWait = absl::Seconds(5);

// From its construction on, `wait` times the slowness.
class Deadline {
 public:
  explicit Deadline(absl::Duration wait = kWait)
      : end_(absl::Now() + Scaled(wait)) {}

  bool passed() const { return absl::Now() >= end_; }
  // Sleeps, longer from nap to nap up to a millisecond. False, without
  // sleeping, once the deadline has passed.
  bool Nap();

 private:
  absl::Time end_;
  int nap_count_ = 0;
};

}  // namespace sluice::conformance
