// Hundreds of queues, all of them full at once; the limit on queues; and
// thousands of connections one after the other. Slow: only with --sizing.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "tests/conformance/conformance.h"

namespace sluice::conformance {
namespace {

class Sizing : public Conformance {
 protected:
  void SetUp() override {
    if (!Flags().sizing) GTEST_SKIP() << "only with --sizing";
    Conformance::SetUp();
  }
  // Queues go before their controllers.
  struct Fleet {
    std::vector<std::unique_ptr<RawController>> controllers;
    std::vector<std::unique_ptr<RawQueue>> queues;
  };
  // As many I/O queues, over as many controllers as that takes.
  void Connect(uint32_t queue_count, uint32_t depth, Fleet* fleet) {
    uint32_t qid = 0;
    while (fleet->queues.size() < queue_count) {
      if (qid == 0 || qid == limits().io_queue_count_max) {
        fleet->controllers.push_back(Enabled());
        ASSERT_NE(fleet->controllers.back(), nullptr);
        qid = 0;
      }
      ++qid;
      fleet->queues.push_back(NewQueue(fleet->controllers.back().get(),
                                       static_cast<uint16_t>(qid), depth));
      ASSERT_NE(fleet->queues.back(), nullptr) << fleet->queues.size();
    }
  }
  void Fill(RawQueue* queue, uint32_t depth) {
    const uint32_t block = limits().block_bytes;
    for (uint32_t i = 0; i < depth; ++i) {
      ASSERT_TRUE(
          queue
              ->Submit(queue->BlockSqe(nvme::IoOpcode::kRead, limits().nsid, i,
                                       1, block, size_t{i} * block))
              .ok());
    }
  }
  void Drain(RawQueue* queue, uint32_t depth) {
    for (uint32_t i = 0; i < depth; ++i) {
      const auto response = queue->connection().WaitAnyResponse(12 * kWait);
      ASSERT_EQ(Text(response), "0x000") << "response " << i;
    }
  }
};

TEST_F(Sizing, Burst) {
  const uint32_t depth = std::min(Flags().queue_depth, limits().io_depth_max);
  Fleet fleet;
  Connect(Flags().queue_count, depth, &fleet);
  if (HasFatalFailure()) return;
  for (uint32_t round = 0; round < Flags().round_count; ++round) {
    for (const auto& queue : fleet.queues) Fill(queue.get(), depth);
    for (const auto& queue : fleet.queues) Drain(queue.get(), depth);
    ASSERT_FALSE(HasFatalFailure()) << "round " << round;
  }
  std::printf("%zu I/O queues of depth %u over %zu controllers, %u rounds\n",
              fleet.queues.size(), depth, fleet.controllers.size(),
              Flags().round_count);
}

TEST_F(Sizing, BeyondTheLimit) {
  const uint32_t limit = Flags().max_queues;
  if (limit == 0) GTEST_SKIP() << "--max-queues was not given";
  std::vector<std::unique_ptr<RawQueue>> queues;
  std::string refusal;
  while (refusal.empty()) {
    auto queue = RawQueue::Open(host(), RawQueueOptions::Admin());
    ASSERT_TRUE(queue.ok()) << queue.status();
    const ConnectAnswer answer = (*queue)->connection().Connect();
    if (!answer.established()) {
      refusal = answer.text();
    } else {
      queues.push_back(*std::move(queue));
    }
    ASSERT_LE(queues.size(), limit);
  }
  Check("", refusal, {"rejected 6"});
  EXPECT_EQ(queues.size(), limit);
  // The others go on.
  const auto response = queues[0]->Connect(RawConnect::For(
      host(), queues[0]->options().request, nvme::kCntlidDynamic));
  EXPECT_EQ(Text(response), "0x000");

  // And where one goes, another may come, soon.
  queues.pop_back();
  Deadline deadline;
  std::string answer;
  do {
    auto queue = RawQueue::Open(host(), RawQueueOptions::Admin());
    ASSERT_TRUE(queue.ok()) << queue.status();
    answer = (*queue)->connection().Connect().text();
  } while (answer != "established" && deadline.Nap());
  EXPECT_EQ(answer, "established");
  queues.clear();
  Deadline settled;
  while (Liveness() != "alive" && settled.Nap()) {
  }
}

TEST_F(Sizing, Cycles) {
  for (uint32_t i = 0; i < Flags().cycle_count; ++i) {
    const Io io = NewIo(16);
    ASSERT_TRUE(io) << "cycle " << i;
  }
}

}  // namespace
}  // namespace sluice::conformance
