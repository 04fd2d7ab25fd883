// I/O queues that take their receives out of one shared queue, over the
// built-in iWARP provider (the fakes have none).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "nvme/io_command.h"
#include "nvme/private_data.h"
#include "tests/conformance/answers.h"
#include "tests/conformance/pattern.h"
#include "tests/support/fault_layer.h"
#include "tests/support/live_target.h"
#include "tests/support/raw_stream.h"
#include "transport/limits.h"

namespace sluice::target {
namespace {

using blockdev::Operation;
using conformance::DiffersFromPattern;
using conformance::FillPattern;
using conformance::RawController;
using conformance::Text;

constexpr uint32_t kDepth = 32;
constexpr uint32_t kShared = 3 * kDepth;
constexpr uint32_t kTotal = kShared + transport::kSharedReceivesSpare;
constexpr uint32_t kBlockBytes = 512;
constexpr uint32_t kInCapsuleBytes = 4096;

class SharedReceivesTest : public ::testing::Test {
 protected:
  SharedReceivesTest() : live_(Options(), LiveProvider::kIwarp) {}

  TargetOptions Options() {
    TargetOptions options = LiveTarget::Options();
    options.queue_depth = kDepth;
    options.shared_receives = kShared;
    options.subsystems[0].namespaces[0].layer = faults_.layer();
    return options;
  }
  LiveHost Connect() { return live_.Connect(kDepth, kInCapsuleBytes); }
  static std::string Read(LiveHost* host, uint64_t slba = 0) {
    return Text(host->queue->Execute(
        host->queue->BlockSqe(nvme::IoOpcode::kRead, 1, slba, 1, kBlockBytes)));
  }
  static void SubmitReads(LiveHost* host, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      ASSERT_TRUE(host->queue
                      ->Submit(host->queue->BlockSqe(nvme::IoOpcode::kRead, 1,
                                                     i, 1, kBlockBytes))
                      .ok());
    }
    ASSERT_TRUE(host->queue->connection().WaitSent().ok());
  }
  // Writes 4 KiB in the capsule, at a place of the command's own.
  static void SubmitWrites(LiveHost* host, uint32_t count) {
    std::vector<std::byte> data(kInCapsuleBytes);
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t blocks = kInCapsuleBytes / kBlockBytes;
      FillPattern(i, absl::MakeSpan(data));
      nvme::Sqe sqe = host->queue->BlockSqe(
          nvme::IoOpcode::kWrite, 1, uint64_t{i} * blocks, blocks, kBlockBytes);
      sqe.sgl = nvme::EncodeInCapsule(0, kInCapsuleBytes);
      ASSERT_TRUE(host->queue->Submit(sqe, data).ok());
    }
    ASSERT_TRUE(host->queue->connection().WaitSent().ok());
  }
  static void ExpectAnswers(LiveHost* host, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      ASSERT_EQ(Text(host->queue->connection().WaitAnyResponse()), "0x000");
    }
  }
  void Hang() {
    for (const Operation operation : {Operation::kRead, Operation::kWrite}) {
      faults_.Inject(operation, {.delay = absl::ZeroDuration(), .hang = true});
    }
  }
  transport::SharedReceivesStats Stats() {
    const TargetSnapshot snapshot = live_.Snapshot();
    const auto& shared = snapshot.shards[0].shared_receives;
    return shared.empty() ? transport::SharedReceivesStats() : shared[0].stats;
  }
  bool UntilPosted(uint32_t count) {
    return live_.Until([this, count] { return Stats().posted == count; });
  }

  FaultLayer faults_;
  LiveTarget live_;
};

// The CQ holds all of them once, and of each queue what it sends.
TEST_F(SharedReceivesTest, AreReservedOnceInFull) {
  const Holdings nobody = live_.HeldByNobody();
  EXPECT_EQ(nobody.cq_reserved, 0u);
  auto controller = RawController::ConnectEnabled(live_.host());
  ASSERT_TRUE(controller.ok());
  const uint64_t admin = live_.Held().cq_reserved;  // has its own
  EXPECT_EQ(Stats().count, 0u);

  ASSERT_TRUE((*controller)->RequestQueues(2).ok());
  auto first = (*controller)->OpenQueue(1, kDepth);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(live_.Held().cq_reserved, admin + kTotal + 3 * kDepth);
  auto second = (*controller)->OpenQueue(2, kDepth);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(live_.Held().cq_reserved, admin + kTotal + 6 * kDepth);
  EXPECT_EQ(Stats().admitted, 2 * kDepth);
  EXPECT_EQ(Stats().posted, kTotal);

  *first = nullptr;
  *second = nullptr;
  *controller = nullptr;
  EXPECT_EQ(live_.HeldByNobody().cq_reserved, 0u);
  EXPECT_EQ(live_.Held().cq_outstanding, 0u);
}

TEST_F(SharedReceivesTest, CarryDataOfSeveralHosts) {
  LiveHost one = Connect();
  LiveHost other = Connect();
  for (int round = 0; round < 20; ++round) {
    SubmitWrites(&one, kDepth);
    SubmitReads(&other, kDepth);
    ExpectAnswers(&one, kDepth);
    ExpectAnswers(&other, kDepth);
  }
  constexpr uint32_t kBlocks = kInCapsuleBytes / kBlockBytes;
  for (uint32_t i = 0; i < kDepth; ++i) {
    ASSERT_EQ(Text(other.queue->Execute(other.queue->BlockSqe(
                  nvme::IoOpcode::kRead, 1, uint64_t{i} * kBlocks, kBlocks,
                  kBlockBytes))),
              "0x000");
    EXPECT_EQ(
        DiffersFromPattern(i, other.queue->data().bytes(0, kInCapsuleBytes)),
        "");
  }
  EXPECT_TRUE(UntilPosted(kTotal));
  EXPECT_EQ(Stats().orphans, 0u);
}

TEST_F(SharedReceivesTest, WhoFindsTooFewLeftIsRejected) {
  std::vector<LiveHost> hosts;
  for (uint32_t i = 0; i < kShared / kDepth; ++i) hosts.push_back(Connect());
  auto late = RawController::ConnectEnabled(live_.host());
  ASSERT_TRUE(late.ok());
  ASSERT_TRUE((*late)->RequestQueues(1).ok());

  EXPECT_FALSE((*late)->OpenQueue(1, kDepth).ok());
  EXPECT_EQ(live_.Snapshot().connections.no_resources, 1u);

  hosts.pop_back();
  std::unique_ptr<conformance::RawQueue> queue;
  EXPECT_TRUE(live_.Until([&] {
    auto made = (*late)->OpenQueue(1, kDepth);
    if (made.ok()) queue = *std::move(made);
    return queue != nullptr;
  }));
  EXPECT_EQ(Read(&hosts.front()), "0x000");
}

// The receives that it takes are others'.
TEST_F(SharedReceivesTest, WhoSendsMoreThanItsDepthIsCutOff) {
  LiveHost greedy = Connect();
  LiveHost other = Connect();
  Hang();
  SubmitReads(&greedy, kDepth);
  ASSERT_TRUE(live_.Until([this] { return faults_.hanging() == kDepth; }));
  EXPECT_EQ(Stats().posted, kTotal - kDepth);

  SubmitReads(&greedy, 1);

  EXPECT_TRUE(greedy.queue->connection().WaitEnd());
  faults_.Clear();
  EXPECT_EQ(Read(&other), "0x000");
  faults_.Release();
  EXPECT_TRUE(UntilPosted(kTotal));
}

// R21: what is taken when a host goes comes back, whatever it was doing.
TEST_F(SharedReceivesTest, NoneIsLostToHostsThatVanish) {
  LiveHost stays = Connect();
  for (int round = 0; round < 20; ++round) {
    LiveHost goes = Connect();
    const bool hang = round % 2 == 0;
    if (hang) Hang();
    SubmitWrites(&goes, kDepth / 2);
    SubmitReads(&goes, kDepth / 2);
    if (hang) {
      ASSERT_TRUE(live_.Until([this] { return faults_.hanging() == kDepth; }));
    }
    if (round % 4 < 2) {
      goes.queue->connection().DestroyQp();
    } else {
      goes.queue->connection().Disconnect();
    }
    goes = LiveHost();
    faults_.Clear();
    faults_.Release();
    ASSERT_TRUE(live_.Until([this] { return Stats().admitted == kDepth; }));
    ASSERT_TRUE(UntilPosted(kTotal)) << round;
  }
  EXPECT_EQ(Read(&stays), "0x000");
}

// An I/O queue in plain TCP: it begins its first capsule and is gone.
void BeginACapsuleAndGo(uint16_t port, uint32_t depth) {
  nvme::ConnectRequest request;
  request.qid = 1;
  request.set_queue_depth(depth);
  request.hrqsize = static_cast<uint16_t>(depth);
  const auto data = nvme::EncodeConnectRequest(request);
  RawStream raw = RawStream::Connect(port);
  ASSERT_TRUE(raw.Send(MpaText({.data = Bytes(data.begin(), data.end())})));
  Bytes reply;
  while (!raw.TakeMpa(&reply) && !raw.at_end()) {
    raw.Collect();
    absl::SleepFor(absl::Microseconds(100));
  }
  ASSERT_FALSE(raw.at_end());
  constexpr uint16_t kSendFirst = kSendLast & ~kLastBit;
  ASSERT_TRUE(raw.Send(
      Seal(Untagged(kSendFirst, 0, 0, 1, 0, Bytes(64)), /*crc=*/false)));
}

// What a device had taken for a command that never came whole comes back, too.
// More rounds than there are spare receives, and then all depths at once.
TEST_F(SharedReceivesTest, NoneIsLostToHalfACapsule) {
  constexpr uint32_t kRounds = 2 * transport::kSharedReceivesSpare;
  LiveHost stays = Connect();
  for (uint32_t round = 0; round < kRounds; ++round) {
    const uint64_t closed_before = live_.Snapshot().connections.closed;
    BeginACapsuleAndGo(live_.host().port, kDepth);
    ASSERT_FALSE(HasFatalFailure());
    ASSERT_TRUE(live_.Until([&] {
      return live_.Snapshot().connections.closed > closed_before;
    })) << round;
  }
  LiveHost second = Connect();
  LiveHost third = Connect();
  Hang();
  for (LiveHost* host : {&stays, &second, &third}) SubmitReads(host, kDepth);
  EXPECT_TRUE(live_.Until([this] { return faults_.hanging() == 3 * kDepth; }));
  EXPECT_EQ(Stats().posted, kTotal - 3 * kDepth);
  faults_.Clear();
  faults_.Release();
  for (LiveHost* host : {&stays, &second, &third}) ExpectAnswers(host, kDepth);
}

TEST_F(SharedReceivesTest, TheTargetStopsWithCommandsInThem) {
  LiveHost host = Connect();
  SubmitWrites(&host, kDepth);
  EXPECT_TRUE(live_.Stop());
}

}  // namespace
}  // namespace sluice::target
