// Monotonic time, behind a seam so that tests turn the clock by hand.
#pragma once

#include <cstdint>

namespace sluice {

inline constexpr int64_t kNanosPerMicro = 1'000;
inline constexpr int64_t kNanosPerMilli = 1'000'000;
inline constexpr int64_t kNanosPerSecond = 1'000'000'000;

class Clock {
 public:
  virtual ~Clock() = default;
  // CLOCK_MONOTONIC, in nanoseconds.
  virtual int64_t NowNanos() = 0;

  // The machine's clock. Lives for ever. Thread-safe.
  static Clock* Real();
};

// Stands still until it is told to move. Not thread-safe.
class FakeClock : public Clock {
 public:
  int64_t NowNanos() override { return now_nanos_; }
  void Advance(int64_t nanos) { now_nanos_ += nanos; }

 private:
  int64_t now_nanos_ = kNanosPerSecond;
};

}  // namespace sluice
