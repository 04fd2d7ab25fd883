// The policy on a model of a reactor: time is reckoned, so that a second of
// load takes milliseconds and every run is the same.
#include "core/spin_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace sluice {
namespace {

// What the modelled machine needs, in nanoseconds.
constexpr int64_t kEmptyTick = 100;
constexpr int64_t kTick = 200;       // a tick with work, and
constexpr int64_t kEach = 500;       // each piece of it
constexpr int64_t kBatch = 32;       // pieces in one tick at most
constexpr int64_t kSleepCpu = 3000;  // of a sleep with its wake-up
constexpr int64_t kWake = 20'000;    // from the work's coming to being awake
constexpr double kBestRate =
    1e9 / (kEach + static_cast<double>(kTick) / kBatch);
constexpr int64_t kNever = INT64_MAX;

// When work comes. Next() is the time of the earliest that has not been taken.
class Arrivals {
 public:
  virtual ~Arrivals() = default;
  virtual int64_t Next() = 0;
  virtual void Take() = 0;
  // Work taken has been done.
  virtual void Done(int64_t /*now*/, int64_t /*count*/) {}
};

class Poisson : public Arrivals {
 public:
  // Per second; in waves, on and off for so long each, or always.
  explicit Poisson(double rate, int64_t half_period = 0)
      : gap_(rate / 1e9), half_period_(half_period) {
    Advance();
  }
  int64_t Next() override { return next_; }
  void Take() override { Advance(); }

 private:
  void Advance() {
    next_ += static_cast<int64_t>(gap_(random_)) + 1;
    if (half_period_ > 0 && next_ / half_period_ % 2 == 1) {
      next_ = (next_ / half_period_ + 1) * half_period_;
    }
  }
  std::minstd_rand random_{7};
  std::exponential_distribution<double> gap_;
  const int64_t half_period_;
  int64_t next_ = 0;
};

// Who sends the next when the last is answered, a little later.
class ClosedLoop : public Arrivals {
 public:
  ClosedLoop(int depth, int64_t pause) : pause_(pause) {
    for (int i = 0; i < depth; ++i) coming_.push_back(0);
  }
  int64_t Next() override { return coming_.empty() ? kNever : coming_.front(); }
  void Take() override { coming_.pop_front(); }
  void Done(int64_t now, int64_t count) override {
    std::uniform_int_distribution<int64_t> jitter(-pause_ / 8, pause_ / 8);
    for (int64_t i = 0; i < count; ++i) {
      coming_.push_back(now + pause_ + jitter(random_));
    }
    std::sort(coming_.begin(), coming_.end());
  }

 private:
  const int64_t pause_;
  std::minstd_rand random_{7};
  std::deque<int64_t> coming_;
};

struct Outcome {
  double cpu_share = 0;
  double per_second = 0;
  int64_t p99_nanos = 0;
  int64_t after_pause_nanos = 0;  // p99 of the first after 50 us of silence
  SpinStats stats;
};

int64_t P99(std::vector<int64_t>* values) {
  if (values->empty()) return 0;
  std::sort(values->begin(), values->end());
  return (*values)[(values->size() - 1) * 99 / 100];
}

Outcome Simulate(const SpinOptions& options, Arrivals* arrivals,
                 double seconds = 0.25) {
  SpinPolicy policy(options);
  policy.set_wake_cost(kWake);
  const auto end = static_cast<int64_t>(seconds * 1e9);
  int64_t now = 0;
  int64_t cpu = 0;
  int64_t last_arrival = 0;
  std::vector<int64_t> latencies;
  std::vector<int64_t> after_pause;
  while (now < end) {
    int64_t work = 0;
    std::array<int64_t, kBatch> came;
    while (work < kBatch && arrivals->Next() <= now) {
      came[static_cast<size_t>(work++)] = arrivals->Next();
      arrivals->Take();
    }
    policy.OnTick(now, static_cast<int>(work));
    const int64_t took = work == 0 ? kEmptyTick : kTick + work * kEach;
    now += took;
    cpu += took;
    if (work > 0) {
      for (int64_t i = 0; i < work; ++i) {
        const int64_t at = came[static_cast<size_t>(i)];
        latencies.push_back(now - at);
        if (at - last_arrival > 50'000) after_pause.push_back(now - at);
        last_arrival = at;
      }
      arrivals->Done(now, work);
      continue;
    }
    if (policy.ShouldSpin()) continue;
    if (arrivals->Next() <= now) continue;  // armed, and looked once more
    policy.OnSleep();
    cpu += kSleepCpu;
    now = std::min(std::max(now, arrivals->Next()), end) + kWake;
  }
  Outcome outcome;
  outcome.cpu_share = static_cast<double>(cpu) / static_cast<double>(now);
  outcome.per_second =
      static_cast<double>(latencies.size()) * 1e9 / static_cast<double>(now);
  outcome.p99_nanos = P99(&latencies);
  outcome.after_pause_nanos = P99(&after_pause);
  outcome.stats = policy.stats();
  return outcome;
}

SpinOptions Mode(PollMode mode) {
  SpinOptions options;
  options.mode = mode;
  return options;
}

struct Three {
  Outcome poll, event, hybrid;
};

Three SimulateAll(const std::function<std::unique_ptr<Arrivals>()>& make,
                  double seconds = 0.25) {
  Three three;
  three.poll = Simulate(Mode(PollMode::kPoll), make().get(), seconds);
  three.event = Simulate(Mode(PollMode::kEvent), make().get(), seconds);
  three.hybrid = Simulate(Mode(PollMode::kHybrid), make().get(), seconds);
  return three;
}

TEST(SpinPolicy, AtHighLoadItIsAsFastAsPolling) {
  for (const double load : {0.75, 0.9, 0.97}) {
    const Three three = SimulateAll(
        [&] { return std::make_unique<Poisson>(load * kBestRate); });

    EXPECT_GE(three.hybrid.per_second, 0.99 * three.poll.per_second) << load;
    EXPECT_LE(three.hybrid.p99_nanos,
              1.05 * static_cast<double>(three.poll.p99_nanos))
        << load;
  }
}

TEST(SpinPolicy, AtLowLoadItCostsWhatEventsCost) {
  for (const double load : {0.001, 0.01, 0.03, 0.1, 0.25, 0.5}) {
    const Three three = SimulateAll(
        [&] { return std::make_unique<Poisson>(load * kBestRate); });

    EXPECT_LE(three.hybrid.cpu_share, 1.05 * three.event.cpu_share) << load;
    EXPECT_LE(three.hybrid.p99_nanos,
              1.01 * static_cast<double>(three.event.p99_nanos))
        << load;
  }
}

TEST(SpinPolicy, AQueueOfDepthOneIsAsFastAsPolling) {
  for (const int64_t pause : {2'000, 8'000, 16'000}) {
    const Three three =
        SimulateAll([&] { return std::make_unique<ClosedLoop>(1, pause); });

    EXPECT_GE(three.hybrid.per_second, 0.99 * three.poll.per_second) << pause;
    EXPECT_LE(three.hybrid.p99_nanos,
              1.05 * static_cast<double>(three.poll.p99_nanos))
        << pause;
  }
}

// One message at a time, from somebody who is held up for a while now and then,
// as by an interrupt or by whoever else has his processor.
class Disturbed : public ClosedLoop {
 public:
  Disturbed() : ClosedLoop(1, 8'000) {}
  int64_t Next() override {
    return ClosedLoop::Next() == kNever ? kNever : ClosedLoop::Next() + late_;
  }
  void Take() override {
    ClosedLoop::Take();
    // Of 2,000 messages eight are late.
    const int place = ++taken_ % 2'000;
    late_ = place < 8 ? 60'000 : 0;
  }

 private:
  int taken_ = 0;
  int64_t late_ = 0;
};

// What disturbs regular pauses does not end them for long.
TEST(SpinPolicy, DisturbancesOfAQueueOfDepthOneAreSoonOver) {
  const Three three = SimulateAll([] { return std::make_unique<Disturbed>(); });

  EXPECT_GE(three.hybrid.per_second, 0.99 * three.poll.per_second);
  EXPECT_LE(three.hybrid.p99_nanos,
            1.05 * static_cast<double>(three.poll.p99_nanos));
}

TEST(SpinPolicy, AFullQueueIsAsFastAsPolling) {
  const Three three =
      SimulateAll([] { return std::make_unique<ClosedLoop>(32, 5'000); });

  EXPECT_GE(three.hybrid.per_second, 0.99 * three.poll.per_second);
}

// Where a wake-up is nothing beside the pause, no spin is worth it.
TEST(SpinPolicy, LongPausesAreSleptThroughHoweverRegular) {
  const Three three =
      SimulateAll([] { return std::make_unique<ClosedLoop>(1, 90'000); });

  EXPECT_LE(three.hybrid.cpu_share, 1.05 * three.event.cpu_share);
}

// Ten waves at least.
double SecondsOf(int64_t half_period) {
  return std::max(0.25, 20e-9 * static_cast<double>(half_period));
}

TEST(SpinPolicy, SquareWavesCostWhatEventsCostAndAreNoSlower) {
  for (const double load : {0.25, 0.5}) {
    for (const int64_t half_period :
         {100'000, 1'000'000, 10'000'000, 100'000'000}) {
      const Three three = SimulateAll(
          [&] {
            return std::make_unique<Poisson>(load * kBestRate, half_period);
          },
          SecondsOf(half_period));
      const std::string what =
          std::to_string(load) + " for " + std::to_string(half_period);

      EXPECT_LE(three.hybrid.cpu_share, 1.05 * three.event.cpu_share) << what;
      EXPECT_LE(three.hybrid.p99_nanos,
                1.01 * static_cast<double>(three.event.p99_nanos))
          << what;
      EXPECT_LE(three.hybrid.after_pause_nanos,
                1.01 * static_cast<double>(three.event.after_pause_nanos))
          << what;
    }
  }
}

// In the wave as good as polling, between them nearly as cheap as events.
TEST(SpinPolicy, SteepWavesAreFastWhileTheyLast) {
  for (const int64_t half_period : {1'000'000, 10'000'000, 100'000'000}) {
    const Three three = SimulateAll(
        [&] {
          return std::make_unique<Poisson>(0.85 * kBestRate, half_period);
        },
        SecondsOf(half_period));

    EXPECT_LE(three.hybrid.cpu_share, 0.6) << half_period;
    EXPECT_LE(three.hybrid.p99_nanos,
              1.05 * static_cast<double>(three.event.p99_nanos))
        << half_period;
  }
}

TEST(SpinPolicy, AnIdleReactorNeverSpins) {
  SpinPolicy policy(Mode(PollMode::kHybrid));
  int64_t now = 1'000'000'000;
  policy.OnTick(now, 1);
  uint64_t spun = 0;
  // What wakes it once a second is no load.
  for (int second = 0; second < 100; ++second) {
    policy.OnTick(now += 1'000, 0);
    while (policy.ShouldSpin()) policy.OnTick(now += 100, 0);
    policy.OnSleep();
    policy.OnTick(now += 1'000'000'000, 1);
    if (second == 20) spun = policy.stats().spin_nanos;
  }

  // What had been saved up, once; then nothing.
  EXPECT_LE(policy.stats().spin_nanos - spun, 10'000U);
}

TEST(SpinPolicy, AfterAnHourAtLowLoadItSeesABusyOneAtOnce) {
  // A minute of one request a millisecond, then a queue of depth 1.
  class Both : public ClosedLoop {
   public:
    Both() : ClosedLoop(0, 8'000) {}
    int64_t Next() override {
      return quiet_left_ > 0 ? quiet_next_ : ClosedLoop::Next();
    }
    void Take() override {
      if (quiet_left_ == 0) return ClosedLoop::Take();
      quiet_next_ += 1'000'000;
      if (--quiet_left_ == 0) ClosedLoop::Done(quiet_next_, 1);
    }
    void Done(int64_t now, int64_t count) override {
      if (quiet_left_ == 0 && started_) ClosedLoop::Done(now, count);
      started_ = quiet_left_ == 0;
    }

   private:
    int quiet_left_ = 60'000;
    int64_t quiet_next_ = 0;
    bool started_ = false;
  };

  Both both;
  const Outcome outcome =
      Simulate(Mode(PollMode::kHybrid), &both, /*seconds=*/60.1);

  // 60,000 and those of 100 ms of 8.8 us each, less those of the first 2 ms.
  EXPECT_GE(outcome.per_second * 60.1, 60'000 + 0.98 * 100'000 / 8.8);
}

// A queue of depth 1 for 100 ms, then one request a millisecond.
class ThenQuiet : public ClosedLoop {
 public:
  ThenQuiet() : ClosedLoop(1, 8'000) {}
  int64_t Next() override {
    return quiet_next_ > 0 ? quiet_next_ : ClosedLoop::Next();
  }
  void Take() override {
    if (quiet_next_ == 0) return ClosedLoop::Take();
    quiet_next_ += 1'000'000;
  }
  void Done(int64_t now, int64_t count) override {
    if (quiet_next_ > 0) return;
    if (now < 100'000'000) return ClosedLoop::Done(now, count);
    quiet_next_ = now + 1'000'000;
  }

 private:
  int64_t quiet_next_ = 0;
};

TEST(SpinPolicy, WhatWasRegularIsForgottenWhenItEnds) {
  ThenQuiet arrivals;
  const Outcome outcome = Simulate(Mode(PollMode::kHybrid), &arrivals, 3);

  // Spun while the queue was served, and a few times after it.
  EXPECT_GE(outcome.stats.spin_nanos, 80'000'000U);
  EXPECT_LE(outcome.stats.spin_nanos, 93'000'000U);
}

TEST(SpinPolicy, PollNeverSleepsAndEventNeverSpins) {
  Poisson arrivals(0.1 * kBestRate);
  const Outcome poll = Simulate(Mode(PollMode::kPoll), &arrivals, 0.1);
  Poisson same(0.1 * kBestRate);
  const Outcome event = Simulate(Mode(PollMode::kEvent), &same, 0.1);

  EXPECT_NEAR(poll.cpu_share, 1, 0.001);
  EXPECT_EQ(event.stats.spin_nanos, 0U);
  EXPECT_EQ(poll.stats.spins_missed, 0U);
}

TEST(SpinPolicy, AFixedSpinLastsAsLongAsItWasTold) {
  SpinOptions options = Mode(PollMode::kHybrid);
  options.fixed_spin = absl::Microseconds(20);
  SpinPolicy policy(options);
  policy.OnTick(1'000'000, 1);
  policy.OnTick(1'001'000, 0);

  policy.OnTick(1'020'999, 0);
  EXPECT_TRUE(policy.ShouldSpin());
  policy.OnTick(1'021'000, 0);
  EXPECT_FALSE(policy.ShouldSpin());
}

TEST(SpinPolicy, TheOperatorsCeilingHolds) {
  SpinOptions options = Mode(PollMode::kHybrid);
  options.max_spin = absl::Microseconds(5);
  ClosedLoop arrivals(1, 8'000);
  const Outcome outcome = Simulate(options, &arrivals);

  // What it tried to see.
  EXPECT_LE(static_cast<double>(outcome.stats.spin_nanos), 0.05 * 0.25e9);
}

TEST(SpinPolicy, TheOperatorsShareHolds) {
  for (const double share : {0.0, 0.1, 0.5}) {
    SpinOptions options = Mode(PollMode::kHybrid);
    options.max_spin_share = share;
    ClosedLoop arrivals(1, 8'000);
    const Outcome outcome = Simulate(options, &arrivals);

    EXPECT_LE(static_cast<double>(outcome.stats.spin_nanos),
              (share + 0.05) * 0.25e9)
        << share;
    if (share > 0) {
      EXPECT_GE(static_cast<double>(outcome.stats.spin_nanos),
                (share - 0.05) * 0.25e9)
          << share;
    }
  }
}

TEST(SpinPolicy, ModesChangeAtRunTime) {
  SpinPolicy policy(Mode(PollMode::kEvent));
  policy.OnTick(1'000'000, 1);
  policy.OnTick(1'001'000, 0);
  EXPECT_FALSE(policy.ShouldSpin());

  policy.set_options(Mode(PollMode::kPoll));
  EXPECT_TRUE(policy.ShouldSpin());
  policy.set_options(Mode(PollMode::kEvent));
  EXPECT_FALSE(policy.ShouldSpin());
}

TEST(SpinPolicy, AWakeUpThatCostsMoreThanBeforeIsLearned) {
  SpinPolicy policy(Mode(PollMode::kHybrid));
  policy.set_wake_cost(5'000);
  for (int i = 0; i < 100; ++i) policy.OnWake(50'000);

  EXPECT_NEAR(static_cast<double>(policy.wake_cost_nanos()), 50'000, 1'000);
}

TEST(SpinOptions, WhatIsOutOfRangeIsNamed) {
  SpinOptions options;
  EXPECT_TRUE(options.Validate().ok());
  options.max_spin = absl::Seconds(1);
  EXPECT_NE(options.Validate().message().find("max_spin"), std::string::npos);
  options = {};
  options.max_spin_share = 1.5;
  EXPECT_NE(options.Validate().message().find("max_spin_share"),
            std::string::npos);
  options = {};
  options.fixed_spin = absl::Microseconds(-1);
  EXPECT_NE(options.Validate().message().find("fixed_spin"), std::string::npos);
}

}  // namespace
}  // namespace sluice
