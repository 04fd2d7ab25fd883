#include "transport/iwarp/deadline.h"

#include "core/clock.h"

namespace sluice::iwarp {

int64_t DeadlineAfter(absl::Duration wait) {
  const int64_t now = Clock::Real()->NowNanos();
  const int64_t nanos = absl::ToInt64Nanoseconds(wait);  // saturates
  return nanos > kNever - now ? kNever : now + nanos;
}

}  // namespace sluice::iwarp
