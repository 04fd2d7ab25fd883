#include "transport/queue_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/unit/transport/post_fault.h"
#include "tests/unit/transport/transport_fixture.h"

namespace sluice::transport {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A host that fits siw's limits.
ConnectionOptions SiwConnection() {
  ConnectionOptions options;
  options.host.max_send_wr = 64;
  options.host.max_recv_wr = 64;
  return options;
}

TEST(QueuePair, DeliversACommandAndAnswersIt) {
  Transport t;
  Connection c(&t);
  ASSERT_THAT(c.status, IsOk());
  c.server.hold = true;

  c.host.Send(c.Command(kNothing, 7));
  t.Settle();
  ASSERT_EQ(c.server.held.size(), 1U);
  EXPECT_EQ(c.server.held[0]->sqe.cid, 7);
  EXPECT_EQ(c.server.held[0]->in_capsule, nullptr);
  c.server.ServeHeld();

  ASSERT_TRUE(c.RunUntilAnswered(1));
  EXPECT_EQ(c.host.responses[0].cqe.cid, 7);
  EXPECT_EQ(c.server.answered, 1U);
  EXPECT_TRUE(c.Close());
}

TEST(QueuePair, DeliversInCapsuleData) {
  Transport t;
  Connection c(&t);
  c.server.hold = true;
  nvme::Sqe sqe = c.Command(kNothing, 0);
  c.host.node.buffer[kCapsulesAt + 64] = 'x';

  c.host.Send(sqe, 64);
  t.Settle();

  ASSERT_EQ(c.server.held.size(), 1U);
  EXPECT_EQ(c.server.held[0]->in_capsule_bytes, 64U);
  EXPECT_EQ(c.server.held[0]->in_capsule[0], std::byte{'x'});
}

TEST(QueuePair, MovesDataBothWays) {
  Transport t;
  Connection c(&t);

  c.host.Send(c.Command(kToHost, 3, 16, 4096));
  ASSERT_TRUE(c.RunUntilAnswered(1));
  EXPECT_TRUE(c.host.HoldsPattern(3, 65536));
  c.host.FillPattern(9, 65536);
  c.host.Send(c.Command(kToTarget, 9, 16, 4096));
  ASSERT_TRUE(c.RunUntilAnswered(2));

  EXPECT_EQ(c.server.bad_bytes, 0U);
  EXPECT_EQ(c.qp->stats().bytes_written, 65536U);
  EXPECT_EQ(c.qp->stats().bytes_read, 65536U);
}

TEST(QueuePair, InvalidatesTheKeyItIsAskedTo) {
  Transport t;
  Connection c(&t);
  nvme::Sqe sqe = c.Command(kNothing, 1);
  sqe.cdw13 = c.host.node.mr->rkey;

  c.host.Send(sqe);

  ASSERT_TRUE(c.RunUntilAnswered(1));
  EXPECT_EQ(c.host.responses[0].invalidated_key, sqe.cdw13);
}

TEST(QueuePair, PlainSendWhereTheDeviceCannotInvalidate) {
  TransportOptions options;
  options.device.mem_mgt_extensions = false;
  Transport t(options);
  Connection c(&t);
  nvme::Sqe sqe = c.Command(kNothing, 1);
  sqe.cdw13 = c.host.node.mr->rkey;

  c.host.Send(sqe);

  ASSERT_TRUE(c.RunUntilAnswered(1));
  EXPECT_EQ(c.host.responses[0].invalidated_key, 0U);
}

// R19: where a receive is missing all the same, the host tries for ever.
TEST(QueuePair, AcceptsWithEndlessRnrRetries) {
  Transport t;
  Connection c(&t, {}, /*accept=*/false);

  c.qp->Accept();
  t.Settle();

  const rdma_cm_event event =
      TakeEvent(c.host.api, c.host.events, RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(event.param.conn.rnr_retry_count, 7);
}

// R19: the receive is back before the response leaves: a host that sends the
// next command at once, its depth full, never finds the queue without one.
TEST(QueuePair, HostWithAFullDepthNeverMeetsRnr) {
  Transport t;
  Connection c(&t);
  uint16_t sent = 0;
  for (; sent < 16; ++sent) c.host.Send(c.Command(kToHost, sent, 2, 512));

  const bool done = t.reactor.RunUntil([&] {
    c.host.Poll();
    while (sent < 500 && sent < c.host.responses.size() + 16) {
      c.host.Send(c.Command(kToHost, sent++, 2, 512));
    }
    return c.host.responses.size() == 500;
  });

  EXPECT_TRUE(done);
  EXPECT_EQ(t.fabric.rnr_count(), 0U);
  EXPECT_EQ(t.fabric.overflow_count(), 0U);
  EXPECT_EQ(c.host.errors, 0);
}

struct CreditCase {
  uint32_t factor;
  uint32_t depth;
};

class QueuePairCredits : public ::testing::TestWithParam<CreditCase> {};

TEST_P(QueuePairCredits, NeverMoreOutstandingThanReserved) {
  const CreditCase param = GetParam();
  ConnectionOptions options;
  options.qp.depth = param.depth;
  options.qp.cq_depth_factor = param.factor;
  Transport t;
  Connection c(&t, options);
  c.host.FillPattern(0, kDataBytes);
  uint16_t sent = 0;

  const bool done = t.reactor.RunUntil([&] {
    c.host.Poll();
    while (sent < 200 && sent < c.host.responses.size() + param.depth) {
      c.host.Send(c.Command(sent % 3 == 0 ? kToTarget : kToHost, sent, 16, 64));
      ++sent;
    }
    EXPECT_LE(c.qp->outstanding(), param.depth * param.factor);
    return c.host.responses.size() == 200;
  });

  EXPECT_TRUE(done);
  const CqLedger& ledger = c.qp->queue()->ledger;
  EXPECT_LE(ledger.outstanding_max(), param.depth * param.factor);
  EXPECT_EQ(ledger.reserved(), param.depth * param.factor);
  EXPECT_EQ(t.fabric.rnr_count(), 0U);
  EXPECT_EQ(c.server.failed, 0U);
  EXPECT_TRUE(c.Close());
  EXPECT_EQ(ledger.outstanding(), 0U);  // R4
  EXPECT_EQ(ledger.reserved(), 0U);
}

// With nothing completing, what is posted is what the credits allow.
TEST_P(QueuePairCredits, HeldSendsFillTheSendQueueAndNoMore) {
  const CreditCase param = GetParam();
  ConnectionOptions options;
  options.qp.depth = param.depth;
  options.qp.cq_depth_factor = param.factor;
  Transport t;
  Connection c(&t, options);
  t.faults().HoldSends(FakeSide::kPassive);

  for (uint32_t i = 0; i < param.depth; ++i) {
    c.host.Send(c.Command(kToHost, static_cast<uint16_t>(i), 16, 64));
  }
  t.Settle();
  EXPECT_LE(c.qp->outstanding(), param.depth * param.factor);
  t.faults().ReleaseSends();

  EXPECT_TRUE(c.RunUntilAnswered(param.depth));
  EXPECT_GT(c.qp->stats().credit_waits, 0U);
}

INSTANTIATE_TEST_SUITE_P(Depths, QueuePairCredits,
                         ::testing::Values(CreditCase{2, 2}, CreditCase{3, 2},
                                           CreditCase{4, 2}, CreditCase{2, 16},
                                           CreditCase{3, 16},
                                           CreditCase{4, 16}),
                         [](const auto& tested) {
                           return "Factor" +
                                  std::to_string(tested.param.factor) +
                                  "Depth" + std::to_string(tested.param.depth);
                         });

TEST(QueuePair, ReadsAreBoundedByTheReadDepth) {
  for (uint32_t read_depth : {1U, 2U, 4U}) {
    ConnectionOptions options;
    options.qp.read_depth = read_depth;
    Transport t;
    Connection c(&t, options);
    c.host.FillPattern(0, kDataBytes);
    t.faults().HoldSends(FakeSide::kPassive);

    for (uint16_t i = 0; i < 16; ++i) {
      c.host.Send(c.Command(kToTarget, i, 16, 64));
    }
    t.Settle();
    // Receives of delivered commands are held until the response.
    EXPECT_EQ(c.qp->outstanding(), read_depth);
    t.faults().ReleaseSends();

    ASSERT_TRUE(c.RunUntilAnswered(16));
    EXPECT_LE(t.fabric.qp_reads_max(c.qp->id()->qp), read_depth);
    EXPECT_EQ(c.qp->stats().bytes_read, 16U * 16 * 64);
  }
}

// R27: what follows a disconnect is counted, and nobody is told of it.
TEST(QueuePair, FlushesAreCountedNotLogged) {
  Transport t;
  Connection c(&t);
  testing::internal::CaptureStderr();

  EXPECT_EQ(c.host.api.disconnect(c.host.node.id), 0);
  t.Settle();
  EXPECT_TRUE(c.Close());

  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, Not(HasSubstr("error")));
  EXPECT_THAT(log, Not(HasSubstr("warn")));
  EXPECT_EQ(t.engine->TotalStats().flushes, 16U);
  EXPECT_EQ(t.engine->TotalStats().errors, 0U);
  EXPECT_EQ(c.server.downs, 1);
}

// R26: the device keeps everything for itself. The deadline ends it.
TEST(QueuePair, DeviceThatNeverFlushesIsLeftBehind) {
  Transport t;
  auto c = std::make_unique<Connection>(&t);
  t.faults().HoldSends(FakeSide::kPassive);
  t.faults().DropFlushCompletions(true, FakeSide::kPassive);
  for (uint16_t i = 0; i < 8; ++i) c->host.Send(c->Command(kToHost, i, 2, 512));
  t.Settle();
  const CqLedger& ledger = c->qp->queue()->ledger;
  ASSERT_GT(ledger.outstanding(), 0U);

  EXPECT_FALSE(c->Close());

  EXPECT_EQ(c->server.failed, 8U);
  EXPECT_EQ(ledger.outstanding(), 0U);
  EXPECT_EQ(ledger.reserved(), 0U);
  EXPECT_EQ(t.pool->used_bytes(), 0U);
}

TEST(QueuePair, ShortCapsuleEndsTheConnection) {
  Transport t;
  Connection c(&t);

  EXPECT_EQ(c.host.node.PostSend(1, IBV_WR_SEND, IBV_SEND_SIGNALED, 0, 63), 0);
  t.Settle();

  EXPECT_FALSE(c.qp->up());
  EXPECT_EQ(c.server.commands, 0U);
  EXPECT_EQ(c.server.downs, 1);
  EXPECT_TRUE(c.Close());
}

TEST(QueuePair, LongCapsuleEndsTheConnection) {
  Transport t;
  Connection c(&t);

  c.host.node.PostSend(1, IBV_WR_SEND, IBV_SEND_SIGNALED, 0, 64 + 4096 + 1);
  t.Settle();

  EXPECT_FALSE(c.qp->up());
  EXPECT_EQ(c.server.commands, 0U);
  EXPECT_TRUE(c.Close());
}

TEST(QueuePair, WrongKeyEndsTheConnection) {
  for (Opcode opcode : {kToHost, kToTarget}) {
    Transport t;
    Connection c(&t);
    nvme::Sqe sqe = c.Command(opcode, 1, 2, 512);
    sqe.cdw12 ^= 0x5555;

    c.host.Send(sqe);
    t.Settle();

    EXPECT_FALSE(c.qp->up());
    EXPECT_EQ(c.server.failed, 1U);
    EXPECT_EQ(t.engine->TotalStats().errors, 1U);
    EXPECT_TRUE(c.Close());
    EXPECT_EQ(t.pool->used_bytes(), 0U);
  }
}

TEST(QueuePair, AcceptThatFailsBreaks) {
  Transport t;
  Connection c(&t, {}, /*accept=*/false);
  t.faults().FailCall("accept", 1, EINVAL);

  c.Accept();

  EXPECT_FALSE(c.qp->up());
  EXPECT_EQ(c.server.downs, 1);
  EXPECT_TRUE(c.Close());
}

// --- the peer goes, at every step ---

enum class Step {
  kBeforeAccept,
  kIdle,
  kCommandsHeld,
  kReadsInFlight,
  kResponsesInFlight,
  kAnswered,
};
enum class Way { kDisconnect, kVanish, kFault };

class QueuePairLoss : public ::testing::TestWithParam<std::tuple<Step, Way>> {};

TEST_P(QueuePairLoss, EverythingIsAccountedFor) {
  const auto [step, way] = GetParam();
  Transport t;
  {
    Connection c(&t, {}, step != Step::kBeforeAccept);
    ASSERT_THAT(c.status, IsOk());
    c.server.hold = step == Step::kCommandsHeld;
    if (step == Step::kReadsInFlight || step == Step::kResponsesInFlight) {
      t.faults().HoldSends(FakeSide::kPassive);
    }
    const Opcode opcode = step == Step::kReadsInFlight ? kToTarget : kToHost;
    if (step > Step::kIdle) {
      for (uint16_t i = 0; i < 16; ++i) {
        c.host.Send(c.Command(opcode, i, 16, 64));
      }
      t.Settle();
    }

    if (way == Way::kDisconnect && step != Step::kBeforeAccept) {
      c.host.api.disconnect(c.host.node.id);
    } else if (way == Way::kFault) {
      t.faults().BreakQp(c.qp->id()->qp);
    } else {
      c.host.Vanish();
    }
    t.Settle();
    t.faults().ReleaseSends();
    t.Settle();
    if (step == Step::kBeforeAccept) {
      c.qp->Accept();
      t.Settle();
    }
    c.server.ServeHeld();
    t.Settle();

    EXPECT_TRUE(c.Close());
    EXPECT_EQ(c.server.commands, c.server.answered + c.server.failed);
    EXPECT_LE(c.server.downs, 1);
  }
  for (const auto& queue : t.device->queues()) {
    EXPECT_EQ(queue->ledger.outstanding(), 0U);
    EXPECT_EQ(queue->ledger.reserved(), 0U);
  }
  EXPECT_EQ(t.pool->used_bytes(), 0U);
  EXPECT_EQ(t.fabric.live_objects().qps, 0);
  EXPECT_EQ(t.fabric.live_objects().ids, 1);  // the listener
}

INSTANTIATE_TEST_SUITE_P(
    Steps, QueuePairLoss,
    ::testing::Combine(
        ::testing::Values(Step::kBeforeAccept, Step::kIdle, Step::kCommandsHeld,
                          Step::kReadsInFlight, Step::kResponsesInFlight,
                          Step::kAnswered),
        ::testing::Values(Way::kDisconnect, Way::kVanish, Way::kFault)));

// R3: each verbs call on the way to a connection fails once, and nothing is
// left of it.
TEST(QueuePair, CreationThatFailsAnywhereLeaksNothing) {
  for (bool iwarp : {false, true}) {
    int failures = 0;
    for (int n = 1; n <= 40; ++n) {
      TransportOptions options;
      options.device.iwarp = iwarp;
      options.device.read_sink_needs_remote_write = iwarp;
      Transport t(options, /*with_device=*/false);
      Host host(&t, ConnectionOptions{}.host);
      ASSERT_TRUE(t.reactor.RunUntil([&] { return t.sink.id != nullptr; }));
      FakeLiveObjects before = t.fabric.live_objects();
      rdma_cm_id* id = std::exchange(t.sink.id, nullptr);
      Server server;
      t.faults().FailAnyCall(n, ENOMEM);

      std::unique_ptr<QueuePair> qp;
      if (t.AddDevice().ok()) {
        auto made = QueuePair::Create(t.engine.get(), t.device.get(), id,
                                      ConnectionOptions{}.qp);
        if (made.ok()) qp = *std::move(made);
      }
      if (qp != nullptr) {
        id->context = static_cast<CmSink*>(qp.get());
        qp->set_handler(&server);
        qp->Accept();
        t.Settle();
        qp->Break("the test ends");
        t.Settle();
        qp->Destroy();
        qp.reset();
      } else {
        t.api().reject(id, nullptr, 0);
        t.api().destroy_id(id);
      }
      if (t.device != nullptr) {
        for (const auto& queue : t.device->queues()) {
          EXPECT_EQ(queue->ledger.reserved(), 0U);
        }
      }
      t.device.reset();
      --before.ids;
      EXPECT_EQ(t.fabric.live_objects(), before) << "call " << n;
      failures += t.faults().failed_call_count();
    }
    EXPECT_GE(failures, 8);
  }
}

TEST(QueuePair, QueueShareIsGivenBackWhenCreationFails) {
  Transport t;
  t.faults().FailCall("create_qp", 2, ENOMEM, 2);  // the first: the host's

  Connection c(&t);

  EXPECT_THAT(c.status.ToString(), HasSubstr("rdma_create_qp"));
  EXPECT_EQ(t.device->queues()[0]->ledger.reserved(), 0U);
  EXPECT_EQ(t.device->queue_pairs, 0U);
}

// R23: whatever the device says to a post, the connection ends in order.
TEST(QueuePair, PostSendThatFailsEndsTheConnection) {
  for (int accepted = 0; accepted <= 4; ++accepted) {
    for (Opcode opcode : {kToHost, kToTarget}) {
      Transport t;
      Connection c(&t);
      PostFault fault(&t);
      fault.victim = c.qp->id()->qp;
      fault.sends_left = accepted;

      c.host.Send(c.Command(opcode, 0, 4, 512));
      t.Settle();

      EXPECT_FALSE(c.qp->up());
      c.Close();
      EXPECT_EQ(c.server.failed, 1U);
      EXPECT_EQ(c.server.downs, 1);
      EXPECT_EQ(t.device->queues()[0]->ledger.outstanding(), 0U);
      EXPECT_EQ(t.device->queues()[0]->ledger.reserved(), 0U);
      EXPECT_EQ(t.pool->used_bytes(), 0U);
    }
  }
}

// Who waited for the credits of what failed goes on, fails too, and does not
// stay behind with the queue pair.
TEST(QueuePair, PostSendThatFailsFreesWhoWaitsForCredits) {
  ConnectionOptions options;
  options.qp.cq_depth_factor = 2;
  Transport t;
  Connection c(&t, options);
  PostFault fault(&t);
  fault.victim = c.qp->id()->qp;
  fault.sends_left = 0;

  for (uint16_t i = 0; i < 16; ++i) c.host.Send(c.Command(kToHost, i, 8, 64));
  t.Settle();

  EXPECT_EQ(c.server.failed, 16U);
  EXPECT_TRUE(c.Close());
}

// The post buffer fills in the middle of a round, and what it held so far is
// refused: the rest of the round must not be built on an operation that ended.
TEST(QueuePair, PostSendThatFailsWhileARoundIsBuilt) {
  ConnectionOptions options;
  options.qp.depth = 128;
  TransportOptions transport_options;
  transport_options.pool_bytes = size_t{16} << 20;
  for (int accepted = 0; accepted < 140; accepted += 17) {
    Transport t(transport_options);
    Connection first(&t, options);
    Connection second(&t, options);
    first.server.hold = second.server.hold = true;
    for (uint16_t i = 0; i < 22; ++i) {
      first.host.Send(first.Command(kToHost, i, 16, 64));
      second.host.Send(second.Command(kToHost, i, 16, 64));
    }
    t.Settle();
    ASSERT_EQ(second.server.held.size(), 22U);
    PostFault fault(&t);
    fault.victim = second.qp->id()->qp;
    fault.sends_left = accepted;

    first.server.ServeHeld();   // 22 rounds of 17
    second.server.ServeHeld();  // the ninth meets the buffer's end
    t.Settle();

    EXPECT_FALSE(second.qp->up());
    EXPECT_TRUE(first.RunUntilAnswered(22));
    second.Close();
    EXPECT_EQ(second.server.answered + second.server.failed, 22U);
  }
}

TEST(QueuePair, PostReceiveThatFailsRefusesOrEndsTheConnection) {
  for (int accepted : {0, 5, 15}) {
    Transport t;
    PostFault fault(&t);
    fault.receives_left = accepted;
    Connection c(&t);
    EXPECT_THAT(c.status, StatusIs(absl::StatusCode::kInternal));
    EXPECT_EQ(t.device->queues()[0]->ledger.reserved(), 0U);
  }
  Transport t;
  Connection c(&t);
  PostFault fault(&t);
  fault.victim = c.qp->id()->qp;
  fault.receives_left = 0;
  c.host.Send(c.Command(kToHost, 0, 4, 512));
  t.Settle();
  EXPECT_FALSE(c.qp->up());
  EXPECT_TRUE(c.Close());
  EXPECT_EQ(c.server.failed, 1U);
}

// siw sends pages by reference: without a completion of its own, a WRITE's
// buffer is read after the response has completed.
TEST(QueuePair, SignalledWritesKeepTheDataIntactOnSiw) {
  for (bool signalled : {true, false}) {
    TransportOptions options;
    options.device = FakeDeviceOptions::Siw();
    if (!signalled) options.device.vendor_id = 0;  // siw, unknown as such
    Transport t(options);
    ConnectionOptions connection = SiwConnection();
    connection.host.max_send_wr = connection.host.max_recv_wr = 32;
    Connection c(&t, connection);
    t.faults().LatePayload(4096, /*operations=*/3, FakeSide::kPassive);
    int intact = 0;

    for (uint16_t i = 0; i < 8; ++i) {
      c.host.responses.clear();
      c.host.Send(c.Command(kToHost, i, 4, 8192));
      ASSERT_TRUE(c.RunUntilAnswered(1));
      if (c.host.HoldsPattern(i, 4 * 8192)) ++intact;
    }

    // Unsignalled, the detector must fire: it proves the other half.
    EXPECT_EQ(intact, signalled ? 8 : 0);
    t.faults().Clear();
  }
}

// A short SEND or WRITE that is not inline may be sent by siw's own thread,
// which cannot read it but by page. The fake refuses what siw might fail.
TEST(QueuePair, ShortSendsGoByPageOnSiw) {
  for (bool known : {true, false}) {
    for (bool with_key : {true, false}) {
      TransportOptions options;
      options.device = FakeDeviceOptions::Siw();
      if (!known) options.device.vendor_id = 0;
      Transport t(options);
      Connection c(&t, SiwConnection());
      // Responses that invalidate are not inline; nor is any WRITE.
      nvme::Sqe sqe = c.Command(kToHost, 1, with_key ? 0 : 3, 24);
      if (with_key) sqe.cdw13 = c.host.node.mr->rkey;

      c.host.Send(sqe);
      t.Settle();

      ASSERT_EQ(c.qp->up(), known);
      if (!known) continue;
      ASSERT_TRUE(c.RunUntilAnswered(1));
      EXPECT_EQ(c.host.responses[0].invalidated_key, sqe.cdw13);
      EXPECT_TRUE(with_key || c.host.HoldsPattern(1, 3 * 24));
    }
  }
}

// The first attempt asks for inline data; a device without any gets a second.
TEST(QueuePair, GoesOnWithoutInlineData) {
  TransportOptions options;
  options.device = FakeDeviceOptions::Siw();
  options.device.max_inline_bytes = 0;
  Transport t(options);
  const int calls = t.faults().call_count("create_qp");
  Connection c(&t, SiwConnection());

  c.host.Send(c.Command(kNothing, 1));

  EXPECT_TRUE(c.RunUntilAnswered(1));
  // The host's own is one of the three.
  EXPECT_EQ(t.faults().call_count("create_qp") - calls, 3);
}

struct NudgeCase {
  bool siw;
  bool capsule;  // comes in time
  uint64_t nudges;
};

// siw may have lost sight of the first capsule: it is made to look again.
TEST(QueuePair, NudgesForAFirstCapsuleThatIsLate) {
  for (const NudgeCase each :
       {NudgeCase{true, false, 1}, NudgeCase{true, true, 0},
        NudgeCase{false, false, 0}}) {
    TransportOptions options;
    if (each.siw) options.device = FakeDeviceOptions::Siw();
    Transport t(options);
    Connection c(&t, SiwConnection());
    if (each.capsule) {
      c.host.Send(c.Command(kNothing, 0));
      ASSERT_TRUE(c.RunUntilAnswered(1));
    }
    t.reactor.Advance(absl::Milliseconds(1999));
    t.Settle();
    EXPECT_EQ(c.qp->stats().nudges, 0U);

    t.reactor.Advance(absl::Seconds(4));
    t.Settle();

    EXPECT_EQ(c.qp->stats().nudges, each.nudges);
    EXPECT_EQ(t.fabric.qp_reads_max(c.qp->id()->qp), each.nudges);
    EXPECT_TRUE(c.qp->up());
    EXPECT_EQ(c.qp->outstanding(), 16U);
    c.host.responses.clear();
    c.host.Send(c.Command(kToHost, 1, 1, 512));
    EXPECT_TRUE(c.RunUntilAnswered(1));
    EXPECT_TRUE(c.Close());
  }
}

// The connection is lost with the nudge on its way.
TEST(QueuePair, NudgeThatFailsIsAccountedFor) {
  TransportOptions options;
  options.device = FakeDeviceOptions::Siw();
  Transport t(options);
  Connection c(&t, SiwConnection());
  CqLedger* ledger = &c.qp->queue()->ledger;
  t.faults().HoldSends(FakeSide::kPassive);
  t.reactor.Advance(absl::Milliseconds(2001));
  t.Settle();
  ASSERT_EQ(c.qp->outstanding(), 17U);

  t.faults().BreakQp(c.qp->id()->qp);
  t.Settle();

  EXPECT_FALSE(c.qp->up());
  EXPECT_EQ(c.qp->outstanding(), 0U);
  EXPECT_TRUE(c.Close());
  EXPECT_EQ(ledger->outstanding(), 0U);
}

TEST(QueuePair, EndsBeforeItsNudge) {
  TransportOptions options;
  options.device = FakeDeviceOptions::Siw();
  Transport t(options);
  Connection c(&t, SiwConnection());
  EXPECT_TRUE(c.Close());
  t.reactor.Advance(absl::Seconds(4));
}

}  // namespace
}  // namespace sluice::transport
