// Every work request completes exactly once, in order, also when the
// connection ends [iwarp §4.2].
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/verbs/pair.h"

namespace sluice::verbs {
namespace {

constexpr uint64_t kCount = 8;  // of each sort

std::vector<uint64_t> Numbers(uint64_t first, uint64_t count) {
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < count; ++i) numbers.push_back(first + i);
  return numbers;
}

class Flush : public Verbs {
 protected:
  static void PostReceives(Endpoint* end) {
    for (uint64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(end->PostRecv(100 + i, end->Sge(0, 64)), 0);
    }
  }

  // Exactly these, all flushed, and nothing after them.
  static void ExpectFlushed(Endpoint* end) {
    const auto received = end->TakeReceived(kCount);
    EXPECT_EQ(WrIds(received), Numbers(100, kCount));
    for (const ibv_wc& wc : received) {
      EXPECT_EQ(StatusName(wc.status), "WR_FLUSH_ERR");
      EXPECT_EQ(wc.qp_num, end->qp()->qp_num);
    }
    PumpFor();
    EXPECT_TRUE(end->received.empty());
    EXPECT_TRUE(end->sent.empty());
  }
};

TEST_F(Flush, ReceivesWhenEitherSideDisconnects) {
  for (const bool by_active : {true, false}) {
    SCOPED_TRACE(by_active);
    Pair pair;
    ASSERT_TRUE(pair.ok());
    PostReceives(pair.active.get());
    PostReceives(pair.passive.get());
    Endpoint* end = by_active ? pair.active.get() : pair.passive.get();
    ASSERT_EQ(Api().disconnect(end->id), 0);
    ASSERT_TRUE(pair.WaitDisconnected());
    ExpectFlushed(pair.active.get());
    ExpectFlushed(pair.passive.get());
  }
}

TEST_F(Flush, ReceivesOnTheErrorState) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  PostReceives(pair.active.get());
  ASSERT_EQ(pair.active->Modify(IBV_QPS_ERR), 0);
  ExpectFlushed(pair.active.get());
}

TEST_F(Flush, ReceivesWhenThePeersQueuePairGoes) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  PostReceives(pair.passive.get());
  pair.active->DestroyQp();
  EXPECT_TRUE(Until(
      [&] { return pair.passive_events.Has(RDMA_CM_EVENT_DISCONNECTED); }));
  ExpectFlushed(pair.passive.get());
}

// READs whose answers cannot come (the peer does not move) and what is behind
// them, signalled or not.
TEST_F(Flush, SendsBehindAnUnfinishedRead) {
  constexpr uint32_t kBytes = 8 << 20;
  PairOptions options;
  options.Both([](EndpointOptions* end) { end->memory_bytes = kBytes; });
  Pair pair(options);
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.active.get();
  PostReceives(end);
  ASSERT_EQ(end->PostRead(1, end->Sge(0, kBytes), pair.passive->At(0)), 0);
  ASSERT_EQ(end->PostSend(2, end->Sge(0, 64), IBV_SEND_FENCE), 0);
  ASSERT_EQ(end->PostWrite(3, end->Sge(0, 64), pair.passive->At(0), 0), 0);
  ASSERT_EQ(end->PostSend(4, end->Sge(0, 64)), 0);

  ASSERT_EQ(end->Modify(IBV_QPS_ERR), 0);

  const auto sent = end->TakeSent(4);
  EXPECT_EQ(WrIds(sent), Numbers(1, 4));
  if (!Spared("sends")) {
    EXPECT_EQ(Statuses(sent),
              "WR_FLUSH_ERR WR_FLUSH_ERR WR_FLUSH_ERR WR_FLUSH_ERR");
  }
  ExpectFlushed(end);
}

// The one that failed comes first with its own status, the rest are flushes.
TEST_F(Flush, BehindAFailedRead) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.active.get();
  PostReceives(end);
  const Remote nowhere = {pair.passive->At(0).address,
                          pair.passive->At(0).rkey ^ 0x5500};
  ASSERT_EQ(end->PostRead(1, end->Sge(0, 64), nowhere, 0), 0);
  ASSERT_EQ(end->PostSend(2, end->Sge(0, 64), 0), 0);
  ASSERT_EQ(end->PostRead(3, end->Sge(0, 64), pair.passive->At(0)), 0);

  const auto sent = end->TakeSent(3);
  EXPECT_EQ(WrIds(sent), Numbers(1, 3));
  Check("statuses", Statuses(sent),
        {"REM_ACCESS_ERR WR_FLUSH_ERR WR_FLUSH_ERR"});
  ExpectFlushed(end);
}

// Completions of success that nobody has polled stay before the flushes.
TEST_F(Flush, KeepsWhatWasCompleted) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.active.get();
  end->held = true;
  for (uint64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(end->PostWrite(i, end->Sge(0, 64), pair.passive->At(0)), 0);
  }
  // They are on their way; an arrival behind them says that they are done.
  ASSERT_EQ(end->PostRecv(50, end->Sge(0, 64)), 0);
  ASSERT_EQ(end->PostRead(20, end->Sge(0, 64), pair.passive->At(0)), 0);
  end->held = false;
  const auto sent = end->TakeSent(kCount + 1);
  ASSERT_EQ(end->Modify(IBV_QPS_ERR), 0);
  EXPECT_EQ(Statuses(end->TakeReceived(1)), "WR_FLUSH_ERR");
  ASSERT_EQ(sent.size(), kCount + 1);
  for (uint64_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(sent[i].wr_id, i);
    EXPECT_EQ(StatusName(sent[i].status), "SUCCESS");
  }
}

// The completions of a queue pair go with it; others' in the same CQ stay.
TEST_F(Flush, DestroyTakesItsCompletionsAlong) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.active.get();
  PostReceives(end);
  end->held = true;
  ASSERT_EQ(end->Modify(IBV_QPS_ERR), 0);
  end->DestroyQp();
  end->held = false;
  PumpFor();
  Check("left", end->received.empty() ? "none" : "some", {"none"});
  end->received.clear();
}

// Both sides have much under way when one ends it: nothing is lost or told
// twice.
TEST_F(Flush, InTheMiddleOfTraffic) {
  constexpr uint64_t kSends = 14;
  for (const bool by_disconnect : {true, false}) {
    SCOPED_TRACE(by_disconnect);
    PairOptions options;
    options.Both([](EndpointOptions* end) { end->memory_bytes = 1 << 20; });
    Pair pair(options);
    ASSERT_TRUE(pair.ok());
    for (Endpoint* end : {pair.active.get(), pair.passive.get()}) {
      for (uint64_t i = 0; i < kSends; ++i) {
        ASSERT_EQ(end->PostRecv(100 + i, end->Sge(0, 200'000)), 0);
      }
    }
    for (uint64_t i = 0; i < kSends; ++i) {
      ASSERT_EQ(pair.active->PostSend(i, pair.active->Sge(0, 200'000)), 0);
      ASSERT_EQ(pair.passive->PostSend(i, pair.passive->Sge(0, 200'000)), 0);
    }
    if (by_disconnect) {
      ASSERT_EQ(Api().disconnect(pair.passive->id), 0);
      ASSERT_TRUE(pair.WaitDisconnected());
    } else {
      ASSERT_EQ(pair.passive->Modify(IBV_QPS_ERR), 0);
    }
    for (Endpoint* end : {pair.active.get(), pair.passive.get()}) {
      const bool is_peer = end == pair.active.get();
      if (is_peer && !by_disconnect && Spared("peer")) continue;
      EXPECT_EQ(WrIds(end->TakeSent(kSends)), Numbers(0, kSends));
      EXPECT_EQ(WrIds(end->TakeReceived(kSends)), Numbers(100, kSends));
    }
    PumpFor();
    EXPECT_TRUE(pair.active->sent.empty());
    EXPECT_TRUE(pair.active->received.empty());
  }
}

}  // namespace
}  // namespace sluice::verbs
