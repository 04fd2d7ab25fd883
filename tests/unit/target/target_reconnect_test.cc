// Hosts that come and go for long: nothing may be left of any of them.
#include <gtest/gtest.h>

#include <string>

#include "nvme/io_command.h"
#include "tests/conformance/answers.h"
#include "tests/support/live_target.h"

namespace sluice::target {
namespace {

constexpr uint32_t kBlockBytes = 512;

// A host with an I/O queue that does a little and goes, in one of four ways.
void ComeAndGo(LiveTarget* live, int i) {
  LiveHost host = live->Connect(16);
  const nvme::Sqe read =
      host.queue->BlockSqe(nvme::IoOpcode::kRead, 1, 0, 1, kBlockBytes);
  ASSERT_EQ(conformance::Text(host.queue->Execute(read)), "0x000") << i;
  switch (i % 4) {
    case 0:
      ASSERT_TRUE(host.controller->Shutdown().ok()) << i;
      host.queue->connection().Disconnect();
      host.controller->admin().connection().Disconnect();
      break;
    case 1:
      host.controller->admin().connection().Disconnect();
      break;
    case 2:
      ASSERT_TRUE(host.queue->Submit(read).ok()) << i;
      host.queue->connection().DestroyQp();
      break;
    default:
      break;
  }
}

void ReconnectsLeaveNothing(int count, const FakeDeviceOptions& device) {
  LiveTarget live(LiveTarget::Options(), device);
  // What the target keeps for the next host is there after the first few.
  for (int i = 0; i < 16; ++i) ComeAndGo(&live, i);
  const Holdings baseline = live.HeldByNobody();
  EXPECT_EQ(baseline.cq_reserved, 0u);
  EXPECT_EQ(baseline.cq_outstanding, 0u);
  EXPECT_EQ(baseline.pool_used_bytes, 0u);

  for (int i = 0; i < count; ++i) {
    ComeAndGo(&live, i);
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_EQ(live.UntilHeld(baseline), baseline);
}

// R33: verbs objects, file descriptors, completion queue entries, extents and
// registered memory are what they were before.
TEST(TargetReconnect, LeavesNothing) {
  ReconnectsLeaveNothing(1000, FakeDeviceOptions::Rxe());
}

// A queue pair there has 8 MiB of its own to register.
TEST(TargetReconnect, LeavesNothingOverIwarp) {
  ReconnectsLeaveNothing(100, FakeDeviceOptions::Siw());
}

// R33: run as target_reconnect_slow_test.
TEST(TargetReconnect, DISABLED_TenThousandLeaveNothing) {
  ReconnectsLeaveNothing(10'000, FakeDeviceOptions::Rxe());
}

}  // namespace
}  // namespace sluice::target
