#include "core/pause.h"

#include <ctime>

#include "core/clock.h"

namespace sluice {

void PauseThread(int64_t nanos) {
  timespec left{};
  left.tv_sec = nanos / kNanosPerSecond;
  left.tv_nsec = nanos % kNanosPerSecond;
  nanosleep(&left,
            nullptr);  // a signal may cut it short: the caller looks again
}

}  // namespace sluice
