// Many queues on two reactors over the built-in provider, whose CQs are finite:
// all of them bursting at once, and all of them idle.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "nvme/io_command.h"
#include "nvme/sgl.h"
#include "tests/conformance/answers.h"
#include "tests/support/live_target.h"

namespace sluice::target {
namespace {

using conformance::RawController;
using conformance::RawQueue;
using conformance::RawQueueOptions;

constexpr uint32_t kBlockBytes = 512;

// Two descriptors for a connection and its peer, and some.
void AllowManyFiles() {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

struct Host {
  std::unique_ptr<RawController> controller;
  std::vector<std::unique_ptr<RawQueue>> queues;  // go first
};

class QueuesTest : public ::testing::Test {
 protected:
  void SetUp() override { AllowManyFiles(); }

  void Start(uint32_t cq_depth_factor) {
    TargetOptions options = LiveTarget::Options();
    options.cores = {0, 1};
    if (!options.Validate().ok()) options.cores.clear();  // one processor
    options.cq_depth_factor = cq_depth_factor;
    options.buffer_pool_bytes = 256 * kMiB;
    live_ = std::make_unique<LiveTarget>(options, LiveProvider::kIwarp);
  }
  void Connect(size_t controllers, uint32_t queues_each, uint32_t depth,
               uint32_t in_capsule_bytes, size_t data_bytes = kBlockBytes) {
    for (size_t i = 0; i < controllers; ++i) {
      Host host;
      auto controller = RawController::ConnectEnabled(live_->host());
      ASSERT_TRUE(controller.ok()) << controller.status();
      host.controller = *std::move(controller);
      const auto granted = host.controller->RequestQueues(queues_each);
      ASSERT_TRUE(granted.ok()) << granted.status();
      ASSERT_GE(*granted, queues_each);
      for (uint32_t q = 1; q <= queues_each; ++q) {
        RawQueueOptions raw = RawQueueOptions::Io(
            static_cast<uint16_t>(q), depth, host.controller->cntlid());
        raw.in_capsule_bytes = in_capsule_bytes;
        raw.data_bytes =
            std::max(depth * data_bytes, size_t{nvme::kConnectDataBytes});
        auto queue = host.controller->OpenQueue(raw);
        ASSERT_TRUE(queue.ok()) << queue.status();
        host.queues.push_back(*std::move(queue));
      }
      hosts_.push_back(std::move(host));
    }
  }
  // Every queue at its full depth, before the first answer is looked for.
  template <typename Submit>
  void BurstEverywhere(Submit submit, uint32_t depth) {
    for (Host& host : hosts_) {
      for (auto& queue : host.queues) {
        for (uint32_t i = 0; i < depth - 1; ++i) {
          ASSERT_TRUE(submit(queue.get(), i).ok());
        }
      }
    }
    for (Host& host : hosts_) {
      for (auto& queue : host.queues) {
        for (uint32_t i = 0; i < depth - 1; ++i) {
          ASSERT_EQ(conformance::Text(queue->connection().WaitAnyResponse()),
                    "0x000");
        }
      }
    }
  }
  void ExpectNothingOverflowed() {
    const TargetSnapshot snapshot = live_->Snapshot();
    EXPECT_EQ(snapshot.connections.cq_errors, 0u);
    uint64_t most = 0;
    for (const TargetSnapshot::Shard& shard : snapshot.shards) {
      for (const TargetSnapshot::CompletionQueue& cq : shard.cqs) {
        EXPECT_LE(cq.outstanding_max, cq.capacity);
        EXPECT_LE(cq.reserved, cq.capacity);
        EXPECT_FALSE(cq.lost);
        most += cq.outstanding_max;
      }
      EXPECT_EQ(shard.completion_queues.rescued, 0u);
    }
    // The receives alone, and the burst on top of them.
    EXPECT_GT(most, 0u);
  }
  void TearDown() override {
    for (Host& host : hosts_) host.queues.clear();
    hosts_.clear();
    live_.reset();
  }

  std::unique_ptr<LiveTarget> live_;
  std::vector<Host> hosts_;
};

TEST_F(QueuesTest, FiveHundredBurstWithInCapsuleDataAndTheSmallestShare) {
  constexpr uint32_t kDepth = 16;
  Start(/*cq_depth_factor=*/2);
  ASSERT_NO_FATAL_FAILURE(Connect(8, 64, kDepth, kBlockBytes));
  const conformance::Bytes block(kBlockBytes, std::byte{0x5A});

  for (int round = 0; round < 3; ++round) {
    ASSERT_NO_FATAL_FAILURE(BurstEverywhere(
        [&](RawQueue* queue, uint32_t i) {
          nvme::Sqe sqe =
              queue->BlockSqe(nvme::IoOpcode::kWrite, 1, i, 1, kBlockBytes);
          sqe.sgl = nvme::EncodeInCapsule(0, kBlockBytes);
          return queue->Submit(sqe, block);
        },
        kDepth));
  }

  ExpectNothingOverflowed();
}

// Each command's data in three pieces: three WRITEs, or READs, for one SEND.
TEST_F(QueuesTest, FiveHundredBurstWithSplitTransfersAndTheLargestShare) {
  constexpr uint32_t kDepth = 16;
  constexpr uint32_t kPieces = 3;
  constexpr uint32_t kListBytes = kPieces * nvme::kSglDescriptorBytes;
  Start(/*cq_depth_factor=*/4);
  ASSERT_NO_FATAL_FAILURE(
      Connect(8, 64, kDepth, kListBytes, kPieces * kBlockBytes));

  for (int round = 0; round < 3; ++round) {
    const auto opcode =
        round == 1 ? nvme::IoOpcode::kWrite : nvme::IoOpcode::kRead;
    ASSERT_NO_FATAL_FAILURE(BurstEverywhere(
        [&](RawQueue* queue, uint32_t i) {
          nvme::Sqe sqe =
              queue->BlockSqe(opcode, 1, i * kPieces, kPieces, kBlockBytes);
          sqe.sgl = nvme::EncodeLastSegment(0, kListBytes);
          std::vector<nvme::KeyedDescriptor> pieces;
          for (uint32_t piece = 0; piece < kPieces; ++piece) {
            pieces.push_back(queue->data().Piece(
                size_t{i * kPieces + piece} * kBlockBytes, kBlockBytes));
          }
          conformance::Bytes list(kListBytes);
          nvme::EncodeKeyedList(pieces, absl::MakeSpan(list));
          return queue->Submit(sqe, list);
        },
        kDepth));
  }

  ExpectNothingOverflowed();
}

// Processor time of the reactors' threads so far.
int64_t ReactorNanos() {
  int64_t total = 0;
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return 0;
  while (const dirent* entry = readdir(tasks)) {
    const std::string folder = absl::StrCat("/proc/self/task/", entry->d_name);
    std::string name;
    std::getline(std::ifstream(folder + "/comm") >> std::ws, name);
    int64_t nanos = 0;
    if (!absl::StartsWith(name, "reactor-")) continue;
    if (std::ifstream(folder + "/schedstat") >> nanos) total += nanos;
  }
  closedir(tasks);
  return total;
}

void ExpectIdle(LiveTarget* live, absl::Duration duration) {
  // What the connects have left to do, the safety polls among it, ends.
  absl::SleepFor(absl::Seconds(3));
  const TargetSnapshot before = live->Snapshot();
  const int64_t cpu = ReactorNanos();
  absl::SleepFor(duration);
  const int64_t used = ReactorNanos() - cpu;
  const TargetSnapshot after = live->Snapshot();

  const double share = static_cast<double>(used) /
                       static_cast<double>(absl::ToInt64Nanoseconds(duration));
  std::printf("idle: %.4f %% of a processor\n", 100 * share);
#ifdef NDEBUG
  EXPECT_LT(share, 0.001);
#else
  EXPECT_LT(share, 0.02);
#endif
  for (size_t i = 0; i < after.shards.size(); ++i) {
    const auto sleeps = static_cast<double>(after.shards[i].reactor.sleeps -
                                            before.shards[i].reactor.sleeps);
    // The safety poll's, the snapshots', and the watch for grown backings.
    EXPECT_LE(sleeps, 3 * absl::ToDoubleSeconds(duration) + 10);
  }
}

TEST_F(QueuesTest, AThousandIdleOnesCostNothing) {
  Start(/*cq_depth_factor=*/4);
  ASSERT_NO_FATAL_FAILURE(Connect(10, 100, 4, 0));

  ExpectIdle(live_.get(), absl::Seconds(4));
}

TEST_F(QueuesTest, DISABLED_AThousandIdleOnesCostNothingForAMinute) {
  Start(/*cq_depth_factor=*/4);
  ASSERT_NO_FATAL_FAILURE(Connect(10, 100, 4, 0));

  ExpectIdle(live_.get(), absl::Minutes(1));
}

}  // namespace
}  // namespace sluice::target
