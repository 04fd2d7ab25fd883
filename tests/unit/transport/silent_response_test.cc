// Responses without a completion of their own.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/unit/transport/post_fault.h"
#include "tests/unit/transport/transport_fixture.h"
#include "transport/limits.h"

namespace sluice::transport {
namespace {

constexpr uint32_t kDepth = 32;

// Memory that a device sends from.
struct Lender {
  TransportOptions options() {
    TransportOptions options;
    options.local.lent.push_back(absl::MakeSpan(memory));
    return options;
  }
  std::vector<std::byte> memory = std::vector<std::byte>(8192);
};

ConnectionOptions WithDepth(uint32_t depth, uint32_t factor = 4) {
  ConnectionOptions options;
  options.qp.depth = depth;
  options.qp.cq_depth_factor = factor;
  return options;
}

Task<void> Settle(QueuePair* qp, bool* settled) {
  *settled = co_await qp->SettleSilent();
}

class SilentResponse : public ::testing::Test {
 protected:
  SilentResponse() : t_(lender_.options()), c_(&t_, WithDepth(kDepth)) {
    c_.server.silent = true;
    c_.server.lent = absl::MakeSpan(lender_.memory);
    ledger_ = &c_.qp->queue()->ledger;
  }
  // Commands without data, each answered before the next is sent.
  void Run(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      c_.host.responses.clear();
      c_.host.Send(c_.Command(kNothing, NextCid()));
      ASSERT_TRUE(c_.RunUntilAnswered(1));
      EXPECT_LE(c_.qp->silent(), kSilentMax);
    }
    c_.host.responses.clear();
    t_.Settle();
  }
  // Sent, not waited for.
  void Send(Opcode opcode, int count = 1) {
    for (int i = 0; i < count; ++i) {
      c_.host.Send(c_.Command(opcode, NextCid(), opcode == kNothing ? 0 : 1,
                              opcode == kNothing ? 0 : 512));
    }
    t_.Settle();
  }
  // A response that has a completion.
  void SendLoud() {
    c_.server.silent = false;
    Send(kNothing);
    c_.server.silent = true;
  }
  uint16_t NextCid() { return static_cast<uint16_t>(cid_++ % 512); }
  uint64_t completion_count() const {
    return t_.engine->TotalStats().completions;
  }
  void BreakQp() {
    t_.faults().BreakQp(c_.qp->id()->qp);
    t_.Settle();
  }

  Lender lender_;
  Transport t_;
  Connection c_;
  CqLedger* ledger_;

 private:
  uint32_t cid_ = 0;
};

TEST_F(SilentResponse, HasNoCompletion) {
  const uint64_t before = completion_count();

  Run(10);

  EXPECT_EQ(completion_count() - before, 10U);  // the receives
  EXPECT_EQ(c_.server.answered, 10U);
  EXPECT_EQ(c_.qp->silent(), 10U);
  EXPECT_EQ(c_.qp->outstanding(), kDepth + 10);
  EXPECT_EQ(ledger_->outstanding(), kDepth + 10);
  EXPECT_TRUE(c_.Close());
  EXPECT_EQ(ledger_->outstanding(), 0U);
  EXPECT_EQ(ledger_->reserved(), 0U);
}

TEST_F(SilentResponse, SendsFromMemoryThatStays) {
  for (size_t i = 0; i < 512; ++i) lender_.memory[i] = PatternByte(7, i);

  c_.host.Send(c_.Command(kToHost, 7, 1, 512));
  ASSERT_TRUE(c_.RunUntilAnswered(1));

  EXPECT_TRUE(c_.host.HoldsPattern(7, 512));
  EXPECT_EQ(c_.qp->silent(), 2U);  // the WRITE and the SEND
}

TEST_F(SilentResponse, IsVouchedForByTheNextOfAnotherKind) {
  Run(10);
  SendLoud();

  EXPECT_EQ(c_.qp->silent(), 0U);
  EXPECT_EQ(c_.qp->outstanding(), kDepth);
  EXPECT_EQ(ledger_->outstanding(), kDepth);
}

TEST_F(SilentResponse, IsNotVouchedForByAnEarlierOne) {
  t_.faults().HoldSends(FakeSide::kPassive);
  SendLoud();
  Send(kNothing, 3);

  t_.faults().ReleaseSends();
  t_.Settle();

  EXPECT_EQ(c_.qp->silent(), 3U);
  EXPECT_EQ(c_.qp->outstanding(), kDepth + 3);
}

TEST_F(SilentResponse, IsWaitedForWhenItMustBe) {
  Run(5);
  bool settled = false;
  Scope scope;
  t_.faults().HoldSends(FakeSide::kPassive);
  scope.Spawn(Settle(c_.qp.get(), &settled));
  t_.Settle();
  EXPECT_FALSE(settled);

  t_.faults().ReleaseSends();
  t_.Settle();

  EXPECT_TRUE(settled);
  EXPECT_EQ(c_.qp->silent(), 0U);
  EXPECT_EQ(c_.qp->outstanding(), kDepth);
}

TEST_F(SilentResponse, IsOneOfSixteenAtMost) {
  const uint64_t before = completion_count();

  Run(170);

  // 170 receives, and every seventeenth response.
  EXPECT_EQ(completion_count() - before, 170U + 10);
  EXPECT_EQ(c_.qp->silent(), 0U);
}

// While the completion of the one that vouches is awaited, too.
TEST_F(SilentResponse, IsOneOfSixteenBetweenTwoThatVouch) {
  t_.faults().HoldSends(FakeSide::kPassive);
  Send(kNothing, kDepth);
  EXPECT_EQ(c_.qp->silent(), kDepth - 1);

  t_.faults().ReleaseSends();
  t_.Settle();

  EXPECT_EQ(c_.qp->silent(), kDepth - 1 - 16);
}

// Their numbers wrap at 16 bits, here among those that are flushed.
TEST_F(SilentResponse, GoesOnForever) {
  Run(17 * 4095 + 8);
  SendLoud();  // vouches for number 65527
  t_.faults().HoldSends(FakeSide::kPassive);
  Send(kNothing, 16);
  ASSERT_EQ(c_.qp->silent(), 16U);

  BreakQp();

  EXPECT_EQ(c_.qp->silent(), 0U);
  EXPECT_EQ(c_.qp->outstanding(), 0U);
  EXPECT_EQ(t_.fabric.rnr_count(), 0U);
  EXPECT_EQ(t_.fabric.overflow_count(), 0U);
  EXPECT_TRUE(c_.Close());
}

// The last free context serves one command after the other before the doorbell
// rings: the responses must not be in it.
TEST_F(SilentResponse, IsOfItsOwnCommand) {
  std::vector<int> seen(512);
  t_.faults().HoldSends(FakeSide::kPassive);
  c_.server.silent = false;
  Send(kNothing, kDepth);
  Send(kNothing);
  c_.server.hold = true;
  Send(kNothing, kDepth - 2);
  ASSERT_EQ(c_.server.held.size(), kDepth - 2);
  c_.server.silent = true;
  c_.server.hold = false;

  Send(kNothing, 2);
  EXPECT_EQ(c_.qp->silent(), 2U);
  c_.server.ServeHeld();
  t_.faults().ReleaseSends();

  ASSERT_TRUE(c_.RunUntilAnswered(2 * kDepth + 1));
  for (const auto& response : c_.host.responses) ++seen[response.cqe.cid];
  for (uint32_t cid = 0; cid <= 2 * kDepth; ++cid) EXPECT_EQ(seen[cid], 1);
}

TEST_F(SilentResponse, ThatIsFlushedIsAccountedForOnce) {
  t_.faults().HoldSends(FakeSide::kPassive);
  Send(kNothing, 3);
  SendLoud();
  Send(kNothing, 2);
  ASSERT_EQ(c_.qp->silent(), 5U);

  BreakQp();

  EXPECT_EQ(c_.server.downs, 1);
  EXPECT_EQ(c_.qp->silent(), 0U);
  EXPECT_EQ(c_.qp->outstanding(), 0U);
  EXPECT_EQ(ledger_->outstanding(), 0U);
  EXPECT_TRUE(c_.Close());
}

// Silent or not, what fails completes.
TEST_F(SilentResponse, ThatFailsBreaksTheQueuePair) {
  nvme::Sqe sqe = c_.Command(kToHost, 1, 1, 512);
  ++sqe.cdw12;  // a wrong key
  c_.host.Send(sqe);
  t_.Settle();

  EXPECT_FALSE(c_.qp->up());
  EXPECT_EQ(c_.server.why, "completion with an error");
  EXPECT_EQ(t_.engine->TotalStats().errors, 1U);
  EXPECT_TRUE(c_.Close());
}

// Nobody tells whether what was silent has left: nobody waits for it.
TEST_F(SilentResponse, DoesNotHoldUpTheEnd) {
  Run(5);
  c_.qp->Break("the test ends");
  t_.Settle();
  EXPECT_EQ(c_.qp->outstanding(), c_.qp->silent());
  EXPECT_TRUE(c_.Close());
  EXPECT_EQ(ledger_->outstanding(), 0U);
}

TEST_F(SilentResponse, ThatWasNeverPostedIsForgotten) {
  Run(3);
  c_.server.hold = true;
  Send(kNothing, 2);
  ASSERT_EQ(c_.server.held.size(), 2U);

  c_.server.ServeHeld();
  EXPECT_EQ(c_.qp->silent(), 5U);
  c_.qp->Break("before the doorbell");
  t_.Settle();

  EXPECT_EQ(c_.qp->silent(), 3U);
  EXPECT_TRUE(c_.Close());
}

// A chain of silent ones and others, of which the device takes a part.
TEST(SilentResponses, ThatAreRefusedAreForgotten) {
  for (int accepted = 0; accepted < 4; ++accepted) {
    Transport t;
    Connection c(&t, WithDepth(kDepth));
    CqLedger* ledger = &c.qp->queue()->ledger;
    c.server.silent = true;
    c.server.hold = true;
    for (uint16_t i = 0; i < 2; ++i) c.host.Send(c.Command(kNothing, i));
    c.host.Send(c.Command(kToHost, 2, 1, 512));  // not silent: two requests
    t.Settle();
    ASSERT_EQ(c.server.held.size(), 3U);
    PostFault fault(&t);
    fault.victim = c.qp->id()->qp;
    fault.sends_left = accepted;

    c.server.ServeHeld();
    t.Settle();

    EXPECT_FALSE(c.qp->up());
    EXPECT_EQ(c.server.downs, 1);
    // The device is done with those it took, and flushes none of them.
    EXPECT_LE(c.qp->silent(), static_cast<uint32_t>(accepted));
    // With the WRITE taken and its SEND refused, nobody says when the WRITE is
    // done: the deadline ends that.
    EXPECT_EQ(c.Close(), accepted < 3);
    EXPECT_EQ(c.server.answered + c.server.failed, 3U);
    EXPECT_EQ(ledger->outstanding(), 0U);
    EXPECT_EQ(ledger->reserved(), 0U);
  }
}

struct Depths {
  uint32_t factor;
  uint32_t depth;
};

// Silent ones hold credits, and the longest responses want the most.
TEST(SilentResponses, LeaveRoomForTheLongest) {
  for (const Depths depths : {Depths{2, 64}, Depths{3, 32}, Depths{4, 22}}) {
    Transport t;
    Connection c(&t, WithDepth(depths.depth, depths.factor));
    c.server.silent = true;
    for (uint16_t i = 0; i < 16; ++i) c.host.Send(c.Command(kNothing, i));
    ASSERT_TRUE(c.RunUntilAnswered(16));
    ASSERT_EQ(c.qp->silent(), 16U);
    c.host.responses.clear();

    for (uint32_t i = 0; i < depths.depth; ++i) {
      c.host.Send(c.Command(kToHost, static_cast<uint16_t>(i), 16, 64));
    }

    EXPECT_TRUE(c.RunUntilAnswered(depths.depth)) << depths.depth;
  }
}

// All credits could be held by responses of which nobody hears.
TEST(SilentResponses, AreNotForShallowQueues) {
  for (const uint32_t depth : {2U, 16U, 21U, 22U}) {
    Transport t;
    Connection c(&t, WithDepth(depth));
    c.server.silent = true;
    c.host.Send(c.Command(kNothing, 0));
    ASSERT_TRUE(c.RunUntilAnswered(1));
    t.Settle();
    EXPECT_EQ(c.qp->silent(), depth < 22 ? 0U : 1U) << depth;
  }
}

struct SiwCase {
  Opcode opcode;
  bool invalidate;
  uint32_t silent;
};

// siw takes no inline data with an invalidate, and sends pages by reference.
TEST(SilentResponses, OfSiwAreThoseThatCanBe) {
  for (const SiwCase each :
       {SiwCase{kNothing, false, 1}, SiwCase{kNothing, true, 0},
        SiwCase{kToHost, false, 0}}) {
    TransportOptions options;
    options.device = FakeDeviceOptions::Siw();
    Transport t(options);
    ConnectionOptions connection = WithDepth(kDepth);
    connection.host.max_send_wr = connection.host.max_recv_wr = 64;
    Connection c(&t, connection);
    c.server.silent = true;
    nvme::Sqe sqe = c.Command(each.opcode, 0, each.opcode == kNothing ? 0 : 1,
                              each.opcode == kNothing ? 0 : 512);
    if (each.invalidate) sqe.cdw13 = c.host.node.mr->rkey;
    c.host.Send(sqe);
    ASSERT_TRUE(c.RunUntilAnswered(1));
    t.Settle();
    EXPECT_EQ(c.qp->silent(), each.silent);
  }
}

TEST(SilentResponses, AreNotForDevicesWithoutInlineData) {
  TransportOptions options;
  options.device.iwarp = true;
  options.device.read_sink_needs_remote_write = true;
  options.device.max_inline_bytes = 0;
  Transport t(options);
  Connection c(&t, WithDepth(kDepth));
  c.server.silent = true;
  c.host.Send(c.Command(kNothing, 0));
  ASSERT_TRUE(c.RunUntilAnswered(1));
  t.Settle();
  EXPECT_EQ(c.qp->silent(), 0U);
}

TEST(SignalEvery, OneMeansEachResponseHasACompletion) {
  Transport t;
  ConnectionOptions options;
  options.qp.depth = 64;
  options.qp.signal_every = 1;
  Connection c(&t, options);
  c.server.silent = true;
  for (uint16_t i = 0; i < 10; ++i) c.host.Send(c.Command(kNothing, i));
  ASSERT_TRUE(c.RunUntilAnswered(10));
  t.Settle();

  EXPECT_EQ(c.qp->silent(), 0U);
  EXPECT_EQ(t.engine->TotalStats().by_kind[static_cast<size_t>(WrKind::kSend)],
            10U);
}

// The device has the data as soon as it is posted.
TEST(InlineData, OfASmallReadMayBeReusedAtOnce) {
  Transport t;
  ConnectionOptions options;
  options.qp.inline_bytes = 64;
  Connection c(&t, options);
  t.faults().HoldSends(FakeSide::kPassive);
  c.host.Send(c.Command(kToHost, 3, 1, 64));
  t.Settle();
  // Everything the pool has, whatever it was lent for.
  std::memset(t.pool->data(), 0xEE, t.pool->total_bytes());

  t.faults().ReleaseSends();
  ASSERT_TRUE(c.RunUntilAnswered(1));
  EXPECT_TRUE(c.host.HoldsPattern(3, 64));
}

}  // namespace
}  // namespace sluice::transport
