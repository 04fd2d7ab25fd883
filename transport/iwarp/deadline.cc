#include "transport/iwarp/deadline.h"

#include <sys/timerfd.h>

#include "core/clock.h"

namespace sluice::iwarp {

int64_t DeadlineAfter(absl::Duration wait) {
  const int64_t now = Clock::Real()->NowNanos();
  const int64_t nanos = absl::ToInt64Nanoseconds(wait);  // saturates
  return nanos > kNever - now ? kNever : now + nanos;
}

void ArmTimer(int timer_fd, int64_t deadline_nanos) {
  itimerspec when = {};
  if (deadline_nanos != kNever) {
    when.it_value.tv_sec = deadline_nanos / kNanosPerSecond;
    when.it_value.tv_nsec = deadline_nanos % kNanosPerSecond;
  }
  timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &when, nullptr);
}

}  // namespace sluice::iwarp
