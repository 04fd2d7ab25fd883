// Reactors that sleep between commands: every completion wakes them, and where
// the notification of one is lost they find it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nvme/io_command.h"
#include "tests/conformance/answers.h"
#include "tests/support/live_target.h"
#include "transport/iwarp/faults.h"

namespace sluice::target {
namespace {

constexpr uint32_t kBlockBytes = 512;
// Longer than a hybrid reactor spins after its last work.
constexpr int kPauseMaxUs = 50;
// A reactor with work outstanding sleeps no longer (core/reactor.h).
constexpr absl::Duration kSafetyPeriod = absl::Milliseconds(10);

TargetOptions OptionsFor(PollMode mode) {
  TargetOptions options = LiveTarget::Options();
  options.spin.mode = mode;
  return options;
}

std::string NameOf(PollMode mode) {
  return mode == PollMode::kEvent ? "Event" : "Hybrid";
}

// The host is busy for so long between two commands, so that they meet the
// reactor while it spins, arms, looks once more and sleeps.
void Pause(int us) {
  const absl::Time end = absl::Now() + absl::Microseconds(us);
  while (absl::Now() < end) {
  }
}

class WakeupTest
    : public ::testing::TestWithParam<std::tuple<LiveProvider, PollMode>> {
 protected:
  WakeupTest()
      : live_(OptionsFor(std::get<1>(GetParam())), std::get<0>(GetParam())),
        host_(live_.Connect(16, 4096)) {}

  // One command at a time, at least `count` and for at least `duration`: reads,
  // and writes with data in the capsule. Returns how long each took.
  std::vector<absl::Duration> Run(int count, absl::Duration duration) {
    const conformance::Bytes block(kBlockBytes, std::byte{0x5A});
    nvme::Sqe read =
        host_.queue->BlockSqe(nvme::IoOpcode::kRead, 1, 0, 1, kBlockBytes);
    nvme::Sqe write =
        host_.queue->BlockSqe(nvme::IoOpcode::kWrite, 1, 1, 1, kBlockBytes);
    write.sgl = nvme::EncodeInCapsule(0, kBlockBytes);
    std::vector<absl::Duration> times;
    const absl::Time end = absl::Now() + duration;
    for (int i = 0; i < count || absl::Now() < end; ++i) {
      const absl::Time begin = absl::Now();
      const auto answer = i % 2 == 0 ? host_.queue->Execute(read)
                                     : host_.queue->Execute(write, block);
      times.push_back(absl::Now() - begin);
      EXPECT_EQ(conformance::Text(answer), "0x000") << "command " << i;
      if (!answer.ok()) break;
      Pause(i % kPauseMaxUs);
    }
    return times;
  }
  // R10: the safety poll finds nothing that had not been announced.
  void NothingIsRescued(int count, absl::Duration duration) {
    Run(count, duration);

    const TargetSnapshot::Shard shard = live_.Snapshot().shards[0];
    EXPECT_EQ(shard.completion_queues.rescued, 0u);
    EXPECT_GT(shard.completion_queues.events, 0u);
    EXPECT_GT(shard.reactor.sleeps, 0u);
  }

  LiveTarget live_;
  LiveHost host_;
};

TEST_P(WakeupTest, NothingIsRescued) {
  NothingIsRescued(10'000, absl::ZeroDuration());
}

// Run as target_wakeup_slow_test.
TEST_P(WakeupTest, DISABLED_NothingIsRescuedForLong) {
  NothingIsRescued(0, absl::Seconds(60));
}

// R11: every 1000th notification is lost. Until the reactor is sure of that and
// arms again, commands wait for its safety poll: a few each time, and each for
// one period. (The built-in provider's reactor wakes for the socket, too.)
TEST_P(WakeupTest, LostNotificationsDelayAFewCommands) {
  constexpr int kCount = 10'000;
  constexpr int kNoise = kCount / 20;  // by whatever else this machine does
  live_.faults().SwallowNotifications(1000);

  std::vector<absl::Duration> times = Run(kCount, absl::ZeroDuration());

  const int swallowed = live_.faults().swallowed_count();
  EXPECT_GE(swallowed, 1);
  std::sort(times.begin(), times.end());
  EXPECT_LT(times.back(), absl::Seconds(1));
  const auto late =
      std::lower_bound(times.begin(), times.end(), kSafetyPeriod / 2);
  EXPECT_LE(times.end() - late, 10 * swallowed + kNoise);
}

INSTANTIATE_TEST_SUITE_P(
    Field, WakeupTest,
    ::testing::Combine(::testing::Values(LiveProvider::kFake,
                                         LiveProvider::kIwarp),
                       ::testing::Values(PollMode::kEvent, PollMode::kHybrid)),
    [](const auto& each) {
      return NameOf(std::get<0>(each.param)) + NameOf(std::get<1>(each.param));
    });

// Every third one comes twice: each is acknowledged, and the one too many,
// which finds the queue armed for the next, costs nobody a completion.
TEST(Notification, ThatComesTwiceHarmsNobody) {
  constexpr int kCount = 5'000;
  LiveTarget live(OptionsFor(PollMode::kEvent), LiveProvider::kIwarp);
  LiveHost host = live.Connect(16);
  iwarp::Faults& faults = iwarp::Faults::Get();
  iwarp::Faults::SpareThisThread(true);
  const uint64_t doubled_before = faults.doubled_count();
  faults.DoubleNotification(1, 3);

  for (int i = 0; i < kCount; ++i) {
    ASSERT_EQ(conformance::Text(host.queue->Execute(host.queue->BlockSqe(
                  nvme::IoOpcode::kRead, 1, 0, 1, kBlockBytes))),
              "0x000");
  }

  EXPECT_GT(faults.doubled_count() - doubled_before, 100u);
  const TargetSnapshot::Shard shard = live.Snapshot().shards[0];
  EXPECT_EQ(shard.completion_queues.rescued, 0u);
  EXPECT_GE(shard.completion_queues.events,
            faults.doubled_count() - doubled_before);
  host = LiveHost();
  EXPECT_TRUE(live.Stop());
  faults.Clear();
  iwarp::Faults::SpareThisThread(false);
}

// A command that has come, unseen: its completion is in nobody's queue before
// Release().
class UnseenCommandTest : public ::testing::Test {
 protected:
  UnseenCommandTest()
      : live_(OptionsFor(PollMode::kEvent), LiveProvider::kIwarp),
        host_(live_.Connect(16)) {}

  void Submit() {
    const nvme::Sqe read =
        host_.queue->BlockSqe(nvme::IoOpcode::kRead, 1, 0, 1, kBlockBytes);
    faults_.DelayCompletions(1, 0, absl::InfiniteDuration(),
                             iwarp::LateKind::kReceives);
    const auto cid = host_.queue->Submit(read);
    ASSERT_TRUE(cid.ok());
    cid_ = *cid;
    ASSERT_TRUE(live_.Until([&] {
      (void)host_.queue->connection().ended();
      return faults_.waiting_count() == 1;
    }));
  }
  // Returns how long after Release() its answer came.
  absl::Duration AwaitAnswer() {
    const auto answer = host_.queue->connection().WaitResponse(cid_);
    const absl::Time end = absl::Now();
    faults_.Clear();
    EXPECT_EQ(conformance::Text(answer), "0x000");
    return end - absl::FromUnixNanos(released_nanos_);
  }
  // Once; the reactor may be the caller.
  void Release() {
    if (released_nanos_ != 0) return;
    released_nanos_ = absl::GetCurrentTimeNanos();
    faults_.Release();
  }
  TargetSnapshot::Shard Shard() { return live_.Snapshot().shards[0]; }

  static constexpr int kRounds = 20;
  iwarp::Faults& faults_ = iwarp::Faults::Get();
  LiveTarget live_;
  LiveHost host_;
  uint16_t cid_ = 0;
  std::atomic<int64_t> released_nanos_ = 0;
};

// R9: the completion comes after the last empty poll and before the arming,
// which announces nothing of it: the poll behind the arming finds it. No
// traffic follows, and the safety poll would be ten times as late.
TEST_F(UnseenCommandTest, ComesExactlyBeforeTheArming) {
  absl::Duration fastest = absl::InfiniteDuration();
  for (int i = 0; i < kRounds; ++i) {
    released_nanos_ = 0;
    Submit();
    const uint64_t found = Shard().reactor.rearm_found;
    faults_.BeforeArming([&](ibv_cq*) { Release(); });

    // An event makes the reactor arm again.
    ASSERT_TRUE(host_.controller->KeepAlive().ok());
    fastest = std::min(fastest, AwaitAnswer());

    ASSERT_NE(released_nanos_, 0);
    EXPECT_GT(Shard().reactor.rearm_found, found);
  }

  EXPECT_LT(fastest, absl::Milliseconds(1));
  EXPECT_EQ(Shard().completion_queues.rescued, 0u);
}

// R11: its notification is lost, and a reactor that sleeps is woken by nothing
// else. One safety period, at least once, whatever else this machine does.
TEST_F(UnseenCommandTest, IsNotAnnounced) {
  std::vector<absl::Duration> times;
  for (int i = 0; i < kRounds; ++i) {
    released_nanos_ = 0;
    const uint64_t rescued = Shard().completion_queues.rescued;
    // A reactor without work sleeps for longer and longer.
    ASSERT_TRUE(host_.controller->KeepAlive().ok());
    Submit();
    absl::SleepFor(absl::Milliseconds(1));  // to ask would be to wake it
    faults_.SwallowNotification(1);
    std::thread([&] { Release(); }).join();  // this one is spared

    const absl::Duration time = AwaitAnswer();

    // An event might only be late, for a while.
    absl::SleepFor(absl::Milliseconds(100));
    if (Shard().completion_queues.rescued > rescued) times.push_back(time);
  }

  ASSERT_FALSE(times.empty());
  EXPECT_LT(*std::min_element(times.begin(), times.end()), 2 * kSafetyPeriod);
  EXPECT_LT(*std::max_element(times.begin(), times.end()), absl::Seconds(2));
}

}  // namespace
}  // namespace sluice::target
