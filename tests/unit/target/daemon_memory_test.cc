#include "target/daemon_memory.h"

#include <gmock/gmock.h>

#include "tests/support/status_matchers.h"

namespace sluice::target {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// R75
TEST(LockedMemory, NeedIsTwiceThePoolAndReceives) {
  TargetOptions options;

  EXPECT_EQ(LockedMemoryNeed(options), 2 * 64 * kMiB + 16 * kMiB);

  options.cores = {0, 1};
  EXPECT_EQ(LockedMemoryNeed(options), 2 * 64 * kMiB + 2 * 16 * kMiB);

  // One queue that is larger than a chunk.
  options.queue_depth = 1024;
  options.in_capsule_bytes = 16384;
  EXPECT_EQ(LockedMemoryNeed(options), 2 * 64 * kMiB + 2 * 32 * kMiB);
}

TEST(LockedMemory, NeedsSharedReceivesToo) {
  TargetOptions options;
  options.shared_receives = 4032;  // 4096 with the spare ones: 16 MiB of data

  EXPECT_EQ(LockedMemoryNeed(options), 2 * 64 * kMiB + 16 * kMiB + 32 * kMiB);

  options.shared_receives = 30'000;
  options.in_capsule_bytes = 16384;
  EXPECT_EQ(LockedMemoryNeed(options),
            2 * 64 * kMiB + 16 * kMiB + 512 * kMiB + 16 * kMiB);
}

TEST(LockedMemory, NamesTheNeedTheLimitAndTheWayOut) {
  const TargetOptions options;
  const uint64_t need = LockedMemoryNeed(options);

  EXPECT_THAT(CheckLockedMemory(options, {need, need}), IsOk());
  EXPECT_THAT(CheckLockedMemory(options, {UINT64_MAX, UINT64_MAX}), IsOk());
  EXPECT_THAT(
      CheckLockedMemory(options, {8 * kMiB, 8 * kMiB}),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("144 MiB needed"), HasSubstr("limit is 8 MiB"),
                     HasSubstr("ulimit -l 147456"), HasSubstr("LimitMEMLOCK"),
                     HasSubstr("lower --buffer-pool"))));
}

TEST(LockedMemory, RaisesTheSoftLimit) {
  const LockedMemoryLimit limit = RaiseLockedMemoryLimit();

  EXPECT_EQ(limit.soft_bytes, limit.hard_bytes);
}

}  // namespace
}  // namespace sluice::target
