#include "core/clock.h"

#include <ctime>

namespace sluice {
namespace {

class RealClock : public Clock {
 public:
  int64_t NowNanos() override {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<int64_t>(now.tv_sec) * kNanosPerSecond + now.tv_nsec;
  }
};

}  // namespace

Clock* Clock::Real() {
  static RealClock clock;
  return &clock;
}

}  // namespace sluice
