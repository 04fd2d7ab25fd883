// A namespace in memory, sent from without a copy and answered without a
// completion of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "nvme/connect.h"
#include "nvme/io_command.h"
#include "tests/conformance/answers.h"
#include "tests/conformance/pattern.h"
#include "tests/support/live_target.h"

namespace sluice::target {
namespace {

using conformance::DiffersFrom;
using conformance::DiffersFromPattern;
using conformance::Pattern;
using conformance::Text;

constexpr uint32_t kDepth = 64;
constexpr uint32_t kBlockBytes = 512;
constexpr uint32_t kTransferBytes = 4096;
constexpr uint32_t kTransferBlocks = kTransferBytes / kBlockBytes;
constexpr uint16_t kTransferCount = 100;

class InPlaceTest : public ::testing::TestWithParam<bool> {
 protected:
  InPlaceTest() : live_(Options(), FakeDeviceOptions::Rxe()) {
    host_ = live_.Connect(kDepth, kTransferBytes, size_t{2} * kTransferBytes);
  }
  static TargetOptions Options() {
    TargetOptions options = LiveTarget::Options();
    options.lend_memory = GetParam();
    return options;
  }

  // By turns in the capsule and fetched.
  std::string Write(uint64_t index) {
    const conformance::Bytes data = Pattern(index + 1, kTransferBytes);
    nvme::Sqe sqe = Block(nvme::IoOpcode::kWrite, index);
    if (index % 2 == 0) {
      sqe.sgl = nvme::EncodeInCapsule(0, kTransferBytes);
      return Text(host_.queue->Execute(sqe, data));
    }
    std::copy(data.begin(), data.end(), memory().begin());
    return Text(host_.queue->Execute(sqe));
  }
  std::string Read(uint64_t index) {
    host_.queue->data().Fill(0xEE);
    return Text(host_.queue->Execute(Block(nvme::IoOpcode::kRead, index)));
  }
  nvme::Sqe Block(nvme::IoOpcode opcode, uint64_t index) {
    return host_.queue->BlockSqe(opcode, 1, index * kTransferBlocks,
                                 kTransferBlocks, kBlockBytes);
  }
  absl::Span<std::byte> memory() {
    return host_.queue->data().bytes(0, kTransferBytes);
  }
  uint64_t completion_count() {
    uint64_t count = 0;
    for (const auto& shard : live_.Snapshot().shards) {
      count += shard.completion_queues.completions;
    }
    return count;
  }

  LiveTarget live_;
  LiveHost host_;
};

TEST_P(InPlaceTest, WhatWasWrittenIsRead) {
  for (uint64_t i = 0; i < kTransferCount; ++i) ASSERT_EQ(Write(i), "0x000");
  for (uint64_t i = kTransferCount; i-- > 0;) {
    ASSERT_EQ(Read(i), "0x000");
    ASSERT_EQ(DiffersFromPattern(i + 1, memory()), "") << i;
  }
}

TEST_P(InPlaceTest, WhatWasClearedReadsAsZeroes) {
  ASSERT_EQ(Write(1), "0x000");
  ASSERT_EQ(Text(host_.queue->Execute(Block(nvme::IoOpcode::kWriteZeroes, 1))),
            "0x000");
  ASSERT_EQ(Read(1), "0x000");
  EXPECT_EQ(DiffersFrom(0, memory()), "");
}

TEST_P(InPlaceTest, TakesNoBufferAndFewCompletions) {
  for (uint64_t i = 0; i < kTransferCount; ++i) ASSERT_EQ(Write(i), "0x000");
  const uint64_t before = completion_count();
  for (uint64_t i = 0; i < kTransferCount; ++i) ASSERT_EQ(Read(i), "0x000");
  const uint64_t completions = completion_count() - before;

  // One for the command; for its response one, or one of nine responses.
  if (GetParam()) {
    EXPECT_LE(completions, kTransferCount + kTransferCount / 9 + 1);
  } else {
    EXPECT_GE(completions, 2u * kTransferCount - 1);
  }
}

TEST_P(InPlaceTest, ReadsBeyondTheEndAreRefused) {
  const uint64_t blocks = (uint64_t{64} << 20) / kBlockBytes;
  nvme::Sqe sqe = host_.queue->BlockSqe(nvme::IoOpcode::kRead, 1, blocks - 1, 2,
                                        kBlockBytes);
  EXPECT_EQ(Text(host_.queue->Execute(sqe)), "0x080|DNR");
}

// Nobody waited for these responses; the end does.
TEST_P(InPlaceTest, ResponsesInTheDeviceLeaveBeforeTheTargetStops) {
  constexpr uint64_t kCount = 7;
  live_.fabric().faults().DelaySends(absl::Milliseconds(300),
                                     FakeSide::kPassive);
  for (uint64_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(
        host_.queue->Submit(Block(nvme::IoOpcode::kWriteZeroes, i)).ok());
  }
  ASSERT_TRUE(live_.Until([&] {
    return live_.Snapshot().shards[0].target.write_zeroes_commands == kCount;
  }));

  EXPECT_TRUE(live_.Stop());

  for (uint64_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(Text(host_.queue->connection().WaitAnyResponse()), "0x000") << i;
  }
}

// Its answer leaves before the connection ends.
TEST_P(InPlaceTest, DisconnectIsAnsweredFirst) {
  live_.fabric().faults().DelaySends(absl::Milliseconds(100),
                                     FakeSide::kPassive);
  nvme::Sqe sqe;
  nvme::EncodeDisconnect(0, &sqe);

  EXPECT_EQ(Text(host_.queue->Execute(sqe)), "0x000");
  EXPECT_TRUE(host_.queue->connection().WaitEnd());
}

INSTANTIATE_TEST_SUITE_P(Memory, InPlaceTest, ::testing::Bool(),
                         [](const auto& tested) {
                           return tested.param ? "Lent" : "Copied";
                         });

}  // namespace
}  // namespace sluice::target
