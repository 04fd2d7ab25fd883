// A host that goes away, with and without a word, at each step; and hosts that
// come and go in a storm. The fixture then asks whether the target is alive.
#include "absl/time/clock.h"
#include "tests/conformance/conformance.h"

namespace sluice::conformance {
namespace {

constexpr int kRepeatCount = 3;

enum class Manner { kDisconnect, kDestroyQp, kVanish };
constexpr Manner kManners[] = {Manner::kDisconnect, Manner::kDestroyQp,
                               Manner::kVanish};

class Vanish : public Conformance {
 protected:
  // What follows, the destructors, destroys the rest.
  static void Leave(RawConnection* connection, Manner manner) {
    if (manner == Manner::kDisconnect) connection->Disconnect();
    if (manner == Manner::kDestroyQp) connection->DestroyQp();
  }
  std::unique_ptr<RawQueue> Open(const RawQueueOptions& options) {
    auto queue = RawQueue::Open(host(), options);
    if (queue.ok()) return *std::move(queue);
    ADD_FAILURE() << queue.status();
    return nullptr;
  }
  void LeaveWithIoInFlight(nvme::IoOpcode opcode) {
    for (const Manner manner : kManners) {
      const Io io = NewIo(32, 32 * 8 * size_t{limits().block_bytes});
      ASSERT_TRUE(io);
      for (uint32_t i = 0; i < 32; ++i) {
        ASSERT_TRUE(io.queue
                        ->Submit(BlockSqe(io, opcode, i * 8, 8,
                                          i * 8 * size_t{limits().block_bytes}))
                        .ok());
      }
      Leave(&io.queue->connection(), manner);
      Leave(&io.controller->admin().connection(), manner);
    }
  }
};

TEST_F(Vanish, BeforeConnecting) {
  for (int i = 0; i < kRepeatCount; ++i) {
    EXPECT_NE(Open(RawQueueOptions::Admin()), nullptr);
  }
}

TEST_F(Vanish, WhileConnecting) {
  for (const Manner manner : kManners) {
    const auto queue = Open(RawQueueOptions::Admin());
    ASSERT_NE(queue, nullptr);
    ASSERT_EQ(queue->connection().StartConnect(), 0);
    Leave(&queue->connection(), manner);
  }
}

TEST_F(Vanish, BeforeTheConnectCommand) {
  for (const Manner manner : kManners) {
    const auto queue = Open(RawQueueOptions::Admin());
    ASSERT_NE(queue, nullptr);
    ASSERT_TRUE(queue->connection().Connect().established());
    Leave(&queue->connection(), manner);
  }
}

TEST_F(Vanish, WithTheConnectCommandOnItsWay) {
  for (const Manner manner : kManners) {
    const auto queue = Open(RawQueueOptions::Admin());
    ASSERT_NE(queue, nullptr);
    ASSERT_TRUE(queue->connection().Connect().established());
    const RawConnect connect =
        RawConnect::For(host(), queue->options().request, nvme::kCntlidDynamic);
    nvme::Sqe sqe;
    nvme::EncodeConnectCommand(connect.command, &sqe);
    sqe.sgl = queue->data().Keyed(0, nvme::kConnectDataBytes);
    ASSERT_TRUE(queue->Submit(sqe).ok());
    Leave(&queue->connection(), manner);
  }
}

TEST_F(Vanish, BeforeEnable) {
  for (const Manner manner : kManners) {
    const auto controller = Connected();
    ASSERT_NE(controller, nullptr);
    Leave(&controller->admin().connection(), manner);
  }
}

TEST_F(Vanish, AfterEnable) {
  for (const Manner manner : kManners) {
    const auto controller = Enabled();
    ASSERT_NE(controller, nullptr);
    Leave(&controller->admin().connection(), manner);
  }
}

TEST_F(Vanish, WithEventRequests) {
  for (const Manner manner : kManners) {
    const auto controller = Enabled();
    ASSERT_NE(controller, nullptr);
    nvme::Sqe sqe;
    sqe.opcode = static_cast<uint8_t>(nvme::AdminOpcode::kAsyncEventRequest);
    for (uint32_t i = 0; i < limits().aer_count_max; ++i) {
      ASSERT_TRUE(controller->admin().Submit(sqe).ok());
    }
    Leave(&controller->admin().connection(), manner);
  }
}

TEST_F(Vanish, BetweenQueues) {
  for (const Manner manner : kManners) {
    const auto controller = Enabled();
    ASSERT_NE(controller, nullptr);
    const auto queue = Open(RawQueueOptions::Io(1, 16, controller->cntlid()));
    ASSERT_NE(queue, nullptr);
    ASSERT_TRUE(queue->connection().Connect().established());
    Leave(&controller->admin().connection(), manner);
    Leave(&queue->connection(), manner);
  }
}

TEST_F(Vanish, WithReadsInFlight) {
  LeaveWithIoInFlight(nvme::IoOpcode::kRead);
}

TEST_F(Vanish, WithWritesInFlight) {
  LeaveWithIoInFlight(nvme::IoOpcode::kWrite);
}

TEST_F(Vanish, TheAdminQueueTakesTheOthersAlong) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  io.controller->admin().connection().Disconnect();
  const bool ended = io.queue->connection().WaitEnd();
  Check("", ended ? "closed" : "stays", {"closed"});
}

TEST_F(Vanish, AnIoQueueComesBack) {
  const auto controller = Enabled();
  ASSERT_NE(controller, nullptr);
  auto queue = NewQueue(controller.get(), 1, 16);
  ASSERT_NE(queue, nullptr);
  queue->connection().Disconnect();
  queue = nullptr;
  // The target may take the whole controller down; if not, the id is free.
  Deadline deadline;
  std::string answer;
  do {
    auto again = controller->OpenQueue(1, 16);
    answer = again.ok() ? "connected" : again.status().ToString();
  } while (answer != "connected" && !controller->admin().connection().ended() &&
           deadline.Nap());
  if (!controller->admin().connection().ended()) {
    EXPECT_EQ(answer, "connected");
  }
}

// A host that posts fewer receives than it sends commands, and lets the target
// try again once: the connection ends on most devices, and the next one serves.
TEST_F(Vanish, WithoutReceives) {
  const auto controller = Enabled();
  ASSERT_NE(controller, nullptr);
  RawQueueOptions options = RawQueueOptions::Io(1, 32, controller->cntlid());
  options.receives = 2;
  options.rnr_retry_count = 1;
  auto queue = controller->OpenQueue(options);
  ASSERT_TRUE(queue.ok()) << queue.status();
  for (uint32_t i = 0; i < 16; ++i) {
    const auto cid = (*queue)->Submit((*queue)->BlockSqe(
        nvme::IoOpcode::kRead, 1, i, 1, limits().block_bytes));
    if (!cid.ok()) break;  // the connection has ended already
  }
  // Nobody reaps the two responses that came: their receives stay used.
  absl::SleepFor(absl::Seconds(1));

  const Io again = NewIo(32);
  ASSERT_TRUE(again);
  for (uint64_t slba = 0; slba < 16; ++slba) {
    EXPECT_EQ(Text(again.queue->Execute(
                  BlockSqe(again, nvme::IoOpcode::kRead, slba))),
              "0x000");
  }
}

class Storm : public Conformance {};

TEST_F(Storm, HostsComeAndGo) {
  for (uint32_t i = 0; i < Flags().storm_count; ++i) {
    const Io io = NewIo(16);
    ASSERT_TRUE(io) << "cycle " << i;
    ASSERT_EQ(Text(io.queue->Execute(BlockSqe(io, nvme::IoOpcode::kRead, 0))),
              "0x000")
        << "cycle " << i;
    if (i % 2 == 0) io.queue->connection().Disconnect();
    if (i % 3 == 0) (void)io.controller->Shutdown();
  }
}

}  // namespace
}  // namespace sluice::conformance
