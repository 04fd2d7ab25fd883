// Hosts that go while their commands are in the backend, and while what the
// target sends is still with the device.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/time/clock.h"
#include "nvme/io_command.h"
#include "tests/conformance/answers.h"
#include "tests/conformance/pattern.h"
#include "tests/support/fault_layer.h"
#include "tests/support/live_target.h"

namespace sluice::target {
namespace {

using blockdev::Fault;
using blockdev::Operation;
using conformance::RawQueue;
using conformance::RawQueueOptions;

constexpr uint32_t kDepth = 64;
constexpr uint32_t kBlockBytes = 512;
constexpr uint32_t kTransferBlocks = 16;
constexpr size_t kTransferBytes = size_t{kTransferBlocks} * kBlockBytes;

// Of which two seconds are the queue pairs' deadline.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr absl::Duration kStopLimit = absl::Seconds(20);
#else
constexpr absl::Duration kStopLimit = absl::Seconds(5);
#endif

// The fakes' devices, and the built-in iWARP provider.
enum class Kind { kRoce, kRoceSilent, kIwarp, kBuiltIn };
enum class Manner { kAdminFirst, kIoFirst, kVanish };

LiveTarget Start(Kind kind, const TargetOptions& target_options) {
  if (kind == Kind::kBuiltIn) {
    return LiveTarget(target_options, LiveProvider::kIwarp);
  }
  FakeDeviceOptions options = kind == Kind::kIwarp ? FakeDeviceOptions::Siw()
                                                   : FakeDeviceOptions::Rxe();
  options.flush_on_peer_disconnect = kind != Kind::kRoceSilent;
  return LiveTarget(target_options, options);
}

std::string NameOf(Kind kind) {
  switch (kind) {
    case Kind::kRoce:
      return "Roce";
    case Kind::kRoceSilent:
      return "RoceSilent";
    case Kind::kIwarp:
      return "Iwarp";
    case Kind::kBuiltIn:
      return "BuiltIn";
  }
  return "";
}

std::string NameOf(Manner manner) {
  switch (manner) {
    case Manner::kAdminFirst:
      return "AdminFirst";
    case Manner::kIoFirst:
      return "IoFirst";
    case Manner::kVanish:
      return "Vanish";
  }
  return "";
}

// A controller with two I/O queues of depth 64.
struct Host {
  LiveHost first;
  std::unique_ptr<RawQueue> second;  // goes first of all
};

class TeardownTest : public ::testing::TestWithParam<std::tuple<Kind, Manner>> {
 protected:
  TeardownTest() : live_(Start(std::get<0>(GetParam()), Options())) {
    // The target keeps what it has registered; its device, timers.
    live_.faults().DelaySends(absl::Milliseconds(1));
    (void)Connect();
    live_.faults().ReleaseSends();
    baseline_ = live_.HeldByNobody();
  }
  TargetOptions Options() {
    TargetOptions options = LiveTarget::Options();
    options.subsystems[0].namespaces[0].layer = faults_.layer();
    return options;
  }

  Host Connect() {
    Host host;
    host.first = live_.Connect(kDepth, 4096, kDepth * kTransferBytes);
    auto options =
        RawQueueOptions::Io(2, kDepth, host.first.controller->cntlid());
    options.in_capsule_bytes = 4096;
    options.data_bytes = kDepth * kTransferBytes;
    auto second = host.first.controller->OpenQueue(options);
    EXPECT_TRUE(second.ok()) << second.status();
    if (second.ok()) host.second = *std::move(second);
    return host;
  }
  // Reads, writes with data in the capsule and writes whose data is fetched,
  // 32 on each queue.
  void SubmitAll(Host* host) {
    Submit(host->first.queue.get());
    Submit(host->second.get());
  }
  void Submit(RawQueue* queue) {
    const conformance::Bytes block(kBlockBytes, std::byte{0x77});
    for (uint64_t i = 0; i < kDepth / 2; ++i) {
      nvme::Sqe sqe = queue->BlockSqe(
          i % 2 == 0 ? nvme::IoOpcode::kRead : nvme::IoOpcode::kWrite, 1,
          i * kTransferBlocks, kTransferBlocks, kBlockBytes,
          i * kTransferBytes);
      if (i % 4 != 3) {
        ASSERT_TRUE(queue->Submit(sqe).ok());
        continue;
      }
      sqe = queue->BlockSqe(nvme::IoOpcode::kWrite, 1, i * kTransferBlocks, 1,
                            kBlockBytes);
      sqe.sgl = nvme::EncodeInCapsule(0, kBlockBytes);
      ASSERT_TRUE(queue->Submit(sqe, block).ok());
    }
  }
  void Leave(Host* host) {
    auto& admin = host->first.controller->admin().connection();
    switch (std::get<1>(GetParam())) {
      case Manner::kAdminFirst:
        admin.Disconnect();
        [[fallthrough]];
      case Manner::kIoFirst:
        host->first.queue->connection().Disconnect();
        host->second->connection().Disconnect();
        admin.Disconnect();
        break;
      case Manner::kVanish:
        break;
    }
    *host = Host();
  }
  // While the host, too, does its part: READs come to it.
  bool Until(Host* host, const std::function<bool()>& reached) {
    return live_.Until([&] {
      (void)host->first.queue->connection().ended();
      (void)host->second->connection().ended();
      return reached();
    });
  }
  void InjectReadsAndWrites(const Fault& fault) {
    faults_.Inject(Operation::kRead, fault);
    faults_.Inject(Operation::kWrite, fault);
  }
  int queue_pairs() { return live_.Held().objects.qps; }

  FaultLayer faults_;
  LiveTarget live_;
  Holdings baseline_;
};

class DeadDeviceTest : public TeardownTest {};

// R28: the queue pairs go at once, everything that the backend still works on
// stays until it has ended, and other hosts are served meanwhile.
TEST_P(TeardownTest, WithCommandsInTheBackend) {
  InjectReadsAndWrites({.delay = absl::ZeroDuration(), .hang = true});
  Host host = Connect();
  SubmitAll(&host);
  ASSERT_TRUE(Until(&host, [&] { return faults_.hanging() == kDepth; }));
  faults_.Clear();

  Leave(&host);
  ASSERT_TRUE(live_.Until([&] { return queue_pairs() == 0; }));
  const Holdings held = live_.Held();
  EXPECT_EQ(held.controllers, 1u);
  EXPECT_EQ(held.queues, 3u);
  EXPECT_EQ(held.cq_reserved, 0u);
  // Over iWARP each queue pair has a pool of its own.
  if (std::get<0>(GetParam()) < Kind::kIwarp) {
    EXPECT_GT(held.pool_used_bytes, 0u);
  }

  LiveHost other = live_.Connect(16);
  EXPECT_EQ(conformance::Text(other.queue->Execute(other.queue->BlockSqe(
                nvme::IoOpcode::kRead, 1, 0, 1, kBlockBytes))),
            "0x000");
  other = LiveHost();
  faults_.Release();
  EXPECT_EQ(live_.UntilHeld(baseline_), baseline_);
}

// R28: the same where nothing but time lets the backend go on.
TEST_P(TeardownTest, WithABackendThatTakesItsTime) {
  InjectReadsAndWrites({.delay = absl::Milliseconds(200)});
  for (int round = 0; round < 3; ++round) {
    Host host = Connect();
    SubmitAll(&host);
    Leave(&host);
  }
  EXPECT_EQ(live_.UntilHeld(baseline_), baseline_);
}

// R28: the target stops while it waits for the backend of dead queues.
TEST_P(TeardownTest, ThenTheTargetStops) {
  InjectReadsAndWrites({.delay = absl::Milliseconds(200)});
  Host host = Connect();
  SubmitAll(&host);
  Leave(&host);
  EXPECT_TRUE(live_.Stop());
}

// R29: answers, and the READs that fetch data, are with the device.
TEST_P(TeardownTest, WithSendsInTheDevice) {
  Host host = Connect();
  live_.faults().HoldSends();
  SubmitAll(&host);
  // Reads and writes from the capsule have been through the backend.
  ASSERT_TRUE(Until(&host, [&] {
    const auto probe = live_.Snapshot().shards[0].target;
    return probe.read_commands == kDepth / 2 &&
           probe.in_capsule_writes == kDepth / 4;
  }));

  Leave(&host);
  EXPECT_EQ(live_.UntilHeld(baseline_), baseline_);
}

// R29: completions that come late, some before and some after the backend's,
// some before and some after the end.
TEST_P(TeardownTest, WithLateCompletions) {
  InjectReadsAndWrites({.nth = 3, .delay = absl::Milliseconds(15)});
  for (int round = 0; round < 10; ++round) {
    Host host = Connect();
    live_.faults().DelaySends(absl::Milliseconds(2 * round));
    SubmitAll(&host);
    const uint64_t wanted = static_cast<uint64_t>(round) * kDepth / 10;
    ASSERT_TRUE(live_.Until([&] {
      return host.first.queue->connection().ended() ||
             host.second->connection().ended() ||
             live_.Snapshot().shards[0].target.read_commands >= wanted;
    }));
    Leave(&host);
    live_.faults().ReleaseSends();
  }
  EXPECT_EQ(live_.UntilHeld(baseline_), baseline_);
}

// R29: completions that never come: the queue pairs are destroyed after a
// deadline, and all they held is given back.
TEST_P(DeadDeviceTest, KeepsNothing) {
  Host host = Connect();
  live_.faults().HoldSends();
  live_.faults().DropFlushes();
  SubmitAll(&host);
  ASSERT_TRUE(Until(&host, [&] {
    return live_.Snapshot().shards[0].target.read_commands == kDepth / 2;
  }));

  Leave(&host);
  EXPECT_EQ(live_.UntilHeld(baseline_), baseline_);
}

// R26: a target whose device flushes nothing stops in time all the same, and
// gives everything back.
TEST_P(DeadDeviceTest, StopsInTime) {
  Host host = Connect();
  SubmitAll(&host);
  // Those of the Connect commands, too.
  constexpr uint64_t kAnswers = 1 + kDepth / 2;
  ASSERT_TRUE(Until(&host, [&] {
    return host.first.queue->connection().response_count() == kAnswers &&
           host.second->connection().response_count() == kAnswers;
  }));
  live_.faults().DropFlushes();

  const absl::Time begin = absl::Now();
  EXPECT_TRUE(live_.Stop());

  EXPECT_LT(absl::Now() - begin, kStopLimit);
}

constexpr Kind kKinds[] = {Kind::kRoce, Kind::kRoceSilent, Kind::kIwarp,
                           Kind::kBuiltIn};

std::string NameOfParam(
    const ::testing::TestParamInfo<std::tuple<Kind, Manner>>& each) {
  return NameOf(std::get<0>(each.param)) + NameOf(std::get<1>(each.param));
}

INSTANTIATE_TEST_SUITE_P(
    Field, TeardownTest,
    ::testing::Combine(::testing::ValuesIn(kKinds),
                       ::testing::Values(Manner::kAdminFirst, Manner::kIoFirst,
                                         Manner::kVanish)),
    NameOfParam);

// Two seconds each.
INSTANTIATE_TEST_SUITE_P(
    Field, DeadDeviceTest,
    ::testing::Combine(::testing::ValuesIn(kKinds),
                       ::testing::Values(Manner::kAdminFirst)),
    NameOfParam);

}  // namespace
}  // namespace sluice::target
