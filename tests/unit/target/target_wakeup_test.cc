// Reactors that sleep between commands: every completion wakes them.
#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nvme/io_command.h"
#include "tests/conformance/answers.h"
#include "tests/support/live_target.h"

namespace sluice::target {
namespace {

constexpr uint32_t kBlockBytes = 512;
// Longer than a hybrid reactor spins after its last work.
constexpr int kPauseMaxUs = 50;

// The host is busy for so long between two commands, so that they meet the
// reactor while it spins, arms, looks once more and sleeps.
void Pause(int us) {
  const absl::Time end = absl::Now() + absl::Microseconds(us);
  while (absl::Now() < end) {
  }
}

// One command at a time, at least `count` and for at least `duration`.
void NothingIsRescued(PollMode mode, int count, absl::Duration duration) {
  TargetOptions options = LiveTarget::Options();
  options.poll_mode = mode;
  LiveTarget live(options);
  LiveHost host = live.Connect(16, 4096);
  const conformance::Bytes block(kBlockBytes, std::byte{0x5A});
  nvme::Sqe read =
      host.queue->BlockSqe(nvme::IoOpcode::kRead, 1, 0, 1, kBlockBytes);
  nvme::Sqe write =
      host.queue->BlockSqe(nvme::IoOpcode::kWrite, 1, 1, 1, kBlockBytes);
  write.sgl = nvme::EncodeInCapsule(0, kBlockBytes);

  const absl::Time end = absl::Now() + duration;
  for (int i = 0; i < count || absl::Now() < end; ++i) {
    const auto answer = i % 2 == 0 ? host.queue->Execute(read)
                                   : host.queue->Execute(write, block);
    ASSERT_EQ(conformance::Text(answer), "0x000") << "command " << i;
    Pause(i % kPauseMaxUs);
  }

  const TargetSnapshot::Shard shard = live.Snapshot().shards[0];
  EXPECT_EQ(shard.completion_queues.rescued, 0u);
  EXPECT_GT(shard.completion_queues.events, 0u);
  EXPECT_GT(shard.reactor.sleeps, 0u);
}

// R10: the safety poll finds nothing that had not been announced.
TEST(TargetWakeup, NothingIsRescuedInEventMode) {
  NothingIsRescued(PollMode::kEvent, 20'000, absl::ZeroDuration());
}

TEST(TargetWakeup, NothingIsRescuedInHybridMode) {
  NothingIsRescued(PollMode::kHybrid, 20'000, absl::ZeroDuration());
}

// R10: run as target_wakeup_slow_test.
TEST(TargetWakeup, DISABLED_NothingIsRescuedForLongInEventMode) {
  NothingIsRescued(PollMode::kEvent, 0, absl::Seconds(60));
}

TEST(TargetWakeup, DISABLED_NothingIsRescuedForLongInHybridMode) {
  NothingIsRescued(PollMode::kHybrid, 0, absl::Seconds(60));
}

}  // namespace
}  // namespace sluice::target
