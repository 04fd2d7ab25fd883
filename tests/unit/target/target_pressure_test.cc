// More data under way than there are buffers: commands wait, none fails.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "core/units.h"
#include "nvme/io_command.h"
#include "tests/conformance/answers.h"
#include "tests/conformance/pattern.h"
#include "tests/support/live_target.h"

namespace sluice::target {
namespace {

using conformance::DiffersFromPattern;
using conformance::FillPattern;
using conformance::Text;

constexpr uint32_t kBlockBytes = 512;
constexpr uint32_t kTransferBytes = 1 << 20;  // MDTS
constexpr uint32_t kTransferBlocks = kTransferBytes / kBlockBytes;
constexpr uint16_t kTransfersPerQueue = 24;
constexpr size_t kQueues = 2;
// Of the smallest pool, eight of these 48 have a buffer at a time.
constexpr uint64_t kPoolBytes = 8 * kMiB;

class PressureTest : public ::testing::Test {
 protected:
  PressureTest() : live_(Options()) {
    for (LiveHost& host : hosts_) {
      host = live_.Connect(kTransfersPerQueue + 1, 0,
                           size_t{kTransfersPerQueue} * kTransferBytes);
    }
  }
  static TargetOptions Options() {
    TargetOptions options = LiveTarget::Options();
    options.buffer_pool_bytes = kPoolBytes;
    options.lend_memory = false;
    return options;
  }

  // All at once, on every queue.
  void Submit(nvme::IoOpcode opcode) {
    for (size_t q = 0; q < kQueues; ++q) {
      conformance::RawQueue& queue = *hosts_[q].queue;
      for (uint64_t i = 0; i < kTransfersPerQueue; ++i) {
        const uint64_t place = q * kTransfersPerQueue + i;
        ASSERT_TRUE(queue
                        .Submit(queue.BlockSqe(
                            opcode, 1, place * kTransferBlocks, kTransferBlocks,
                            kBlockBytes, i * kTransferBytes))
                        .ok());
      }
    }
  }
  void ExpectServed() {
    for (LiveHost& host : hosts_) {
      for (int i = 0; i < kTransfersPerQueue; ++i) {
        ASSERT_EQ(Text(host.queue->connection().WaitAnyResponse()), "0x000");
      }
    }
  }
  absl::Span<std::byte> Memory(size_t queue, size_t index) {
    return hosts_[queue].queue->data().bytes(index * kTransferBytes,
                                             kTransferBytes);
  }
  TargetSnapshot::Shard Shard() { return live_.Snapshot().shards[0]; }
  uint64_t pool_waits() { return Shard().pool_waits; }

  LiveTarget live_;
  std::array<LiveHost, kQueues> hosts_;
};

// R58
TEST_F(PressureTest, MoreThanThePoolWaitsAndIsIntact) {
  for (size_t q = 0; q < kQueues; ++q) {
    for (size_t i = 0; i < kTransfersPerQueue; ++i) {
      FillPattern(100 * q + i, Memory(q, i));
    }
  }
  ASSERT_NO_FATAL_FAILURE(Submit(nvme::IoOpcode::kWrite));
  ASSERT_NO_FATAL_FAILURE(ExpectServed());
  const uint64_t write_waits = pool_waits();
  EXPECT_GT(write_waits, 0u);
  for (LiveHost& host : hosts_) host.queue->data().Fill(0);
  ASSERT_NO_FATAL_FAILURE(Submit(nvme::IoOpcode::kRead));
  ASSERT_NO_FATAL_FAILURE(ExpectServed());
  EXPECT_GT(pool_waits(), write_waits);
  for (size_t q = 0; q < kQueues; ++q) {
    for (size_t i = 0; i < kTransfersPerQueue; ++i) {
      ASSERT_EQ(DiffersFromPattern(100 * q + i, Memory(q, i)), "")
          << q << " " << i;
    }
  }
}

// R15: while every buffer is held by a response that does not leave, commands
// that need none are served.
TEST_F(PressureTest, CommandsWithoutDataDoNotWaitForBuffers) {
  live_.fabric().faults().HoldSends(FakeSide::kPassive);
  ASSERT_NO_FATAL_FAILURE(Submit(nvme::IoOpcode::kRead));
  ASSERT_TRUE(live_.Until([&] { return pool_waits() > 0; }));
  const uint64_t flushes = Shard().target.flush_commands;
  nvme::Sqe flush{};
  flush.opcode = static_cast<uint8_t>(nvme::IoOpcode::kFlush);
  flush.nsid = 1;

  ASSERT_TRUE(hosts_[0].queue->Submit(flush).ok());

  EXPECT_TRUE(live_.Until(
      [&] { return Shard().target.flush_commands == flushes + 1; }));
  EXPECT_GT(Shard().pool_used_bytes, kPoolBytes / 2);
  live_.fabric().faults().ReleaseSends();
  ASSERT_NO_FATAL_FAILURE(ExpectServed());
  EXPECT_EQ(Text(hosts_[0].queue->connection().WaitAnyResponse()), "0x000");
}

}  // namespace
}  // namespace sluice::target
