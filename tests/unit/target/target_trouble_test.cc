// Hosts that cannot take what the target has in flight: their connections
// break, and the next ones have less of it.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "nvme/io_command.h"
#include "tests/conformance/answers.h"
#include "tests/support/live_target.h"

namespace sluice::target {
namespace {

using conformance::RawQueue;
using conformance::RawQueueOptions;
using conformance::Text;

constexpr uint32_t kDepth = 32;
constexpr uint32_t kBlockBytes = 512;

class TroubleTest : public ::testing::Test {
 protected:
  TroubleTest() : live_(LiveTarget::Options()) {}

  LiveHost Connect(const RawQueueOptions& wanted) {
    LiveHost host;
    auto controller = conformance::RawController::ConnectEnabled(live_.host());
    EXPECT_TRUE(controller.ok()) << controller.status();
    host.controller = *std::move(controller);
    EXPECT_TRUE(host.controller->RequestQueues(1).ok());
    RawQueueOptions options = wanted;
    options.request.cntlid = host.controller->cntlid();
    auto queue = host.controller->OpenQueue(options);
    EXPECT_TRUE(queue.ok()) << queue.status();
    if (queue.ok()) host.queue = *std::move(queue);
    return host;
  }
  static void Submit(RawQueue* queue, nvme::IoOpcode opcode, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      ASSERT_TRUE(
          queue->Submit(queue->BlockSqe(opcode, 1, i, 1, kBlockBytes)).ok());
    }
  }
  // More commands at once than the limits of the connection let through.
  static void ExpectServes(LiveHost* host) {
    Submit(host->queue.get(), nvme::IoOpcode::kWrite, kDepth);
    for (uint32_t i = 0; i < kDepth; ++i) {
      EXPECT_EQ(Text(host->queue->connection().WaitAnyResponse()), "0x000");
    }
  }
  uint64_t received() {
    return live_.Snapshot()
        .shards[0]
        .completion_queues
        .by_kind[static_cast<size_t>(transport::WrKind::kReceive)];
  }
  transport::ConnectionStats connections() {
    return live_.Snapshot().connections;
  }

  LiveTarget live_;
};

TEST_F(TroubleTest, AHostWithoutReceivesGetsFewerSends) {
  const uint64_t reserved_before = live_.Held().cq_reserved;
  uint64_t reserved_whole = 0;
  {
    RawQueueOptions options = RawQueueOptions::Io(1, kDepth, 0);
    options.receives = 2;
    options.rnr_retry_count = 1;
    LiveHost host = Connect(options);
    reserved_whole = live_.Held().cq_reserved - reserved_before;
    Submit(host.queue.get(), nvme::IoOpcode::kRead, 16);
    // Not a wait for responses, which would post receives.
    ASSERT_TRUE(live_.Until([this] {
      return live_.Snapshot().shards[0].recovery.receiver_not_ready == 1;
    }));
  }
  (void)live_.HeldByNobody();
  EXPECT_EQ(connections().adapted, 0u);

  LiveHost host = Connect(RawQueueOptions::Io(1, kDepth, 0));

  EXPECT_GE(connections().adapted, 2u);  // the admin queue, too
  // Half of the three quarters that are not receives; the admin queue is of
  // the same depth.
  EXPECT_EQ(live_.Held().cq_reserved - reserved_before,
            reserved_whole - reserved_whole * 3 / 8);
  ExpectServes(&host);
}

TEST_F(TroubleTest, AHostThatTakesFewerReadsThanItSaidGetsFewer) {
  {
    LiveHost host = Connect(RawQueueOptions::Io(1, kDepth, 0));
    EXPECT_EQ(host.queue->connection().read_depth(), 16u);
    ibv_qp_attr attr{};
    attr.max_dest_rd_atomic = 1;
    ASSERT_EQ(live_.host().api->modify_qp(host.queue->connection().qp(), &attr,
                                          IBV_QP_MAX_DEST_RD_ATOMIC),
              0);
    // All of them out at once, however the two threads take turns.
    live_.faults().HoldSends();
    const uint64_t received_before = received();
    Submit(host.queue.get(), nvme::IoOpcode::kWrite, 16);
    ASSERT_TRUE(
        live_.Until([&] { return received() == received_before + 16; }));
    live_.faults().ReleaseSends();
    ASSERT_TRUE(live_.Until([this] {
      return live_.Snapshot().shards[0].recovery.read_depth == 1;
    }));
  }
  (void)live_.HeldByNobody();

  LiveHost host = Connect(RawQueueOptions::Io(1, kDepth, 0));

  EXPECT_GE(connections().adapted, 1u);
  EXPECT_EQ(host.queue->connection().read_depth(), 8u);
  ExpectServes(&host);
}

// A wrong key is refused at any depth.
TEST_F(TroubleTest, AWrongKeyIsNoTrouble) {
  {
    LiveHost host = Connect(RawQueueOptions::Io(1, kDepth, 0));
    nvme::Sqe sqe =
        host.queue->BlockSqe(nvme::IoOpcode::kWrite, 1, 0, 1, kBlockBytes);
    sqe.sgl[12] ^= std::byte{0x55};  // a byte of the key
    ASSERT_TRUE(host.queue->Submit(sqe).ok());
    EXPECT_TRUE(host.queue->connection().WaitEnd());
  }
  (void)live_.HeldByNobody();

  LiveHost host = Connect(RawQueueOptions::Io(1, kDepth, 0));

  EXPECT_EQ(live_.Snapshot().shards[0].recovery.read_depth, 0u);
  EXPECT_EQ(connections().adapted, 0u);
  EXPECT_EQ(host.queue->connection().read_depth(), 16u);
}

}  // namespace
}  // namespace sluice::target
