// Deadlines: moments of the monotonic clock, in nanoseconds, and the timers
// that wake for them.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace sluice::iwarp {

inline constexpr int64_t kNever = INT64_MAX;

// That long from now; kNever where it is longer than the clock counts.
int64_t DeadlineAfter(absl::Duration wait);

// Makes a timerfd of the monotonic clock readable then; kNever: not at all.
void ArmTimer(int timer_fd, int64_t deadline_nanos);

}  // namespace sluice::iwarp
