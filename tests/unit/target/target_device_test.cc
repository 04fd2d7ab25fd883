// RDMA devices that go and come back under a target with two reactors (R69).
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <string>
#include <vector>

#include "nvme/io_command.h"
#include "tests/conformance/answers.h"
#include "tests/support/fake_verbs_qp.h"
#include "tests/support/fault_layer.h"
#include "tests/support/live_target.h"

namespace sluice::target {
namespace {

using blockdev::Operation;
using conformance::RawController;
using conformance::RawHost;
using conformance::Text;

constexpr uint32_t kDepth = 32;
constexpr uint32_t kBlockBytes = 512;
constexpr const char* kSecondAddress = "192.168.1.1";  // fake1's
constexpr size_t kHostCount = 2;  // on each device; two queues a host

TargetOptions WithListeners(const std::vector<std::string>& listen) {
  TargetOptions options = LiveTarget::Options();
  options.cores.assign(2, sched_getcpu());
  options.listen = listen;
  return options;
}

std::string Read(LiveHost* host, uint64_t slba = 0) {
  return Text(host->queue->Execute(
      host->queue->BlockSqe(nvme::IoOpcode::kRead, 1, slba, 1, kBlockBytes)));
}

void ExpectEnded(LiveHost* host) {
  EXPECT_TRUE(host->queue->connection().WaitEnd());
  EXPECT_TRUE(host->controller->admin().connection().WaitEnd());
}

// Listeners come back by themselves, some time after the device.
bool UntilServed(LiveTarget* live, const RawHost& host) {
  return live->Until([&] { return RawController::ConnectEnabled(host).ok(); });
}

// An address of each of two devices; hosts on both.
class TwoDevicesTest : public ::testing::Test {
 protected:
  TwoDevicesTest()
      : live_(Options(), std::vector<FakeDeviceOptions>(2)),
        second_(live_.host(1, kSecondAddress)) {
    (void)Connect(live_.host());  // registers what the target keeps
    (void)Connect(second_);
    baseline_ = live_.HeldByNobody();
  }
  TargetOptions Options() {
    TargetOptions options = WithListeners({"127.0.0.1:0", "192.168.1.1:0"});
    options.subsystems[0].namespaces[0].layer = faults_.layer();
    return options;
  }

  std::vector<LiveHost> Connect(const RawHost& host) {
    std::vector<LiveHost> hosts;
    for (size_t i = 0; i < kHostCount; ++i) {
      hosts.push_back(live_.Connect(host, kDepth));
    }
    return hosts;
  }
  // What the target held before, and a descriptor for each context that went:
  // the fake keeps those.
  void ExpectBaseline(size_t removal_count) {
    (void)Connect(live_.host());
    (void)Connect(second_);
    Holdings expected = baseline_;
    expected.file_descriptors += removal_count;
    EXPECT_EQ(live_.UntilHeld(expected), expected);
  }
  uint64_t queues_of_shard(size_t index) {
    return live_.Snapshot().shards[index].queues;
  }

  FaultLayer faults_;
  LiveTarget live_;
  const RawHost second_;
  Holdings baseline_;
};

TEST_F(TwoDevicesTest, OneTakesItsOwnConnectionsWithIt) {
  std::vector<LiveHost> gone = Connect(live_.host());
  std::vector<LiveHost> others = Connect(second_);
  ASSERT_GT(queues_of_shard(0), 0u);
  ASSERT_GT(queues_of_shard(1), 0u);

  live_.fabric().faults().RemoveDevice("fake0");

  for (LiveHost& host : gone) ExpectEnded(&host);
  for (LiveHost& host : others) EXPECT_EQ(Read(&host), "0x000");
  EXPECT_TRUE(live_.Until(
      [&] { return live_.Snapshot().connections_open == 2 * kHostCount; }));
  EXPECT_EQ(live_.Snapshot().connections.device_removals, 1u);
  for (LiveHost& host : others) EXPECT_EQ(Read(&host, 7), "0x000");
}

TEST_F(TwoDevicesTest, OneIsServedAgainWhenItReturns) {
  std::vector<LiveHost> gone = Connect(live_.host());
  live_.fabric().faults().RemoveDevice("fake0");
  for (LiveHost& host : gone) ExpectEnded(&host);
  gone.clear();
  EXPECT_FALSE(RawController::Connect(live_.host()).ok());

  live_.fabric().faults().ReturnDevice("fake0");

  ASSERT_TRUE(UntilServed(&live_, live_.host()));
  std::vector<LiveHost> again = Connect(live_.host());
  for (LiveHost& host : again) EXPECT_EQ(Read(&host), "0x000");
  again.clear();
  ExpectBaseline(1);
}

// What the backend works on when its device goes has nobody to go to.
TEST_F(TwoDevicesTest, OneGoesWithCommandsInTheBackend) {
  std::vector<LiveHost> gone = Connect(live_.host());
  faults_.Inject(Operation::kRead,
                 {.delay = absl::ZeroDuration(), .hang = true});
  for (LiveHost& host : gone) {
    for (uint64_t i = 0; i < kDepth; ++i) {
      ASSERT_TRUE(host.queue
                      ->Submit(host.queue->BlockSqe(nvme::IoOpcode::kRead, 1, i,
                                                    1, kBlockBytes))
                      .ok());
    }
  }
  ASSERT_TRUE(
      live_.Until([&] { return faults_.hanging() == kHostCount * kDepth; }));
  faults_.Clear();

  live_.fabric().faults().RemoveDevice("fake0");

  for (LiveHost& host : gone) ExpectEnded(&host);
  gone.clear();
  LiveHost other = live_.Connect(second_, kDepth);
  EXPECT_EQ(Read(&other), "0x000");
  other = LiveHost();
  faults_.Release();
  live_.fabric().faults().ReturnDevice("fake0");
  ASSERT_TRUE(UntilServed(&live_, live_.host()));
  ExpectBaseline(1);
}

TEST_F(TwoDevicesTest, TheyGoAndComeByTurns) {
  for (int round = 0; round < 4; ++round) {
    const bool first = round % 2 == 0;
    const RawHost& host = first ? live_.host() : second_;
    const char* device = first ? "fake0" : "fake1";
    std::vector<LiveHost> gone = Connect(host);
    live_.fabric().faults().RemoveDevice(device);
    for (LiveHost& each : gone) ExpectEnded(&each);
    gone.clear();
    live_.fabric().faults().ReturnDevice(device);
    ASSERT_TRUE(UntilServed(&live_, host)) << round;
  }
  ExpectBaseline(4);
  EXPECT_EQ(live_.Snapshot().connections.device_removals, 4u);
}

TEST_F(TwoDevicesTest, TheTargetStopsWithoutOne) {
  live_.fabric().faults().RemoveDevice("fake0");
  EXPECT_TRUE(live_.Stop());
}

// The device says that it failed, and is still listed: its connections end, it
// is set up anew.
TEST(DeviceFatal, EndsItsConnectionsAndIsServedAgain) {
  LiveTarget live(WithListeners({"0.0.0.0:0"}));
  LiveHost host = live.Connect(kDepth);
  ASSERT_EQ(Read(&host), "0x000");

  live.fabric().faults().DeviceFatal("fake0");

  ExpectEnded(&host);
  host = LiveHost();
  EXPECT_TRUE(UntilServed(&live, live.host()));
  EXPECT_EQ(live.Snapshot().connections.device_failures, 1u);
}

// Every reactor is told, and the one that has it ends it.
TEST(QueuePairError, EndsItsConnectionAloneAndCountsOnce) {
  LiveTarget live(WithListeners({"0.0.0.0:0"}));
  LiveHost host = live.Connect(kDepth);
  LiveHost other = live.Connect(kDepth);

  live.fabric().faults().BreakQp(
      fake::Qp::From(host.queue->connection().qp())->peer);

  EXPECT_TRUE(host.queue->connection().WaitEnd());
  EXPECT_TRUE(live.Until(
      [&live] { return live.Snapshot().connections.queue_pair_errors == 1; }));
  EXPECT_EQ(Read(&other), "0x000");
}

TEST(AnyAddress, IsServedAgainWhenTheDeviceReturns) {
  LiveTarget live(WithListeners({"0.0.0.0:0"}),
                  std::vector<FakeDeviceOptions>(2));
  LiveHost first = live.Connect(kDepth);
  LiveHost second = live.Connect(live.host(0, kSecondAddress), kDepth);
  ASSERT_EQ(Read(&second), "0x000");

  live.fabric().faults().RemoveDevice("fake1");
  ExpectEnded(&second);
  second = LiveHost();
  EXPECT_EQ(Read(&first), "0x000");
  live.fabric().faults().ReturnDevice("fake1");

  ASSERT_TRUE(UntilServed(&live, live.host(0, kSecondAddress)));
  EXPECT_EQ(Read(&first), "0x000");
}

// librdmacm cannot let go of a machine's only device: the program has to end.
TEST(SoleDevice, IsReportedAsStuckOnceNothingIsLeftOnIt) {
  LiveTarget live(WithListeners({"127.0.0.1:0"}));
  std::atomic<int> stuck_count = 0;
  live.target().set_on_device_stuck([&](const std::string& device) {
    EXPECT_EQ(device, "fake0");
    ++stuck_count;
  });
  LiveHost host = live.Connect(kDepth);

  live.fabric().faults().RemoveDevice("fake0");

  ExpectEnded(&host);
  ASSERT_TRUE(live.Until([&] { return stuck_count == 1; }));
  const TargetSnapshot left = live.Snapshot();
  EXPECT_EQ(left.connections_open, 0u);
  for (const auto& shard : left.shards) {
    EXPECT_EQ(shard.queues, 0u);
    EXPECT_EQ(shard.cq_count, 0u);
  }
}

TEST(SoleDevice, IsNotStuckWithAnotherPresent) {
  LiveTarget live(WithListeners({"127.0.0.1:0"}),
                  std::vector<FakeDeviceOptions>(2));
  std::atomic<int> stuck_count = 0;
  live.target().set_on_device_stuck([&](const std::string&) { ++stuck_count; });
  LiveHost host = live.Connect(kDepth);
  live.fabric().faults().RemoveDevice("fake0");
  ExpectEnded(&host);
  host = LiveHost();
  live.fabric().faults().ReturnDevice("fake0");
  ASSERT_TRUE(UntilServed(&live, live.host()));
  EXPECT_EQ(stuck_count, 0);
}

}  // namespace
}  // namespace sluice::target
