#include "transport/cq_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/unit/transport/transport_fixture.h"

namespace sluice::transport {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// R9: a completion exactly between the last empty poll and the arming. Nobody
// announces it; the poll behind the arming finds it, no timer is needed.
TEST(CqEngine, FindsWhatCameBeforeTheArming) {
  Transport t;
  Connection c(&t);
  t.reactor.RunReady();
  bool sent = false;
  t.faults().OnArm([&](ibv_cq*) {
    if (std::exchange(sent, true)) return;
    c.host.Send(c.Command(kNothing, 1));
  });
  // The engine arms only what is not armed: use up the arming first.
  c.host.Send(c.Command(kNothing, 0));
  t.reactor.RunReady();
  const uint64_t found_before = t.reactor->stats().rearm_found;
  const uint64_t commands_before = c.server.commands;

  t.reactor->Sleep(absl::InfiniteDuration());

  ASSERT_TRUE(sent);
  EXPECT_EQ(t.reactor->stats().rearm_found, found_before + 1);
  EXPECT_EQ(c.server.commands, commands_before + 1);
  t.faults().OnArm(nullptr);
  EXPECT_TRUE(c.RunUntilAnswered(2));
  EXPECT_EQ(t.engine->TotalStats().rescued, 0U);
}

// The same where the look behind the arming is left out: the completion lies
// there until the safety poll, which counts it. So this would be noticed.
TEST(CqEngine, AnArmingThatComesLastLosesWhatCameBeforeIt) {
  TransportOptions options;
  options.arms_last = true;
  Transport t(options);
  ConnectionOptions silent;  // no completion of ours announces the lost one
  silent.qp.depth = 32;
  Connection c(&t, silent);
  c.server.silent = true;
  t.reactor.RunReady();
  bool sent = false;
  t.faults().OnArm([&](ibv_cq*) {
    if (std::exchange(sent, true)) return;
    c.host.Send(c.Command(kNothing, 1));
  });
  c.host.Send(c.Command(kNothing, 0));
  ASSERT_TRUE(t.reactor.RunUntil([&] { return c.server.commands == 1; }));
  t.reactor.RunReady();

  t.reactor->Sleep(absl::ZeroDuration());
  ASSERT_TRUE(sent);
  EXPECT_EQ(c.server.commands, 1U);
  EXPECT_EQ(t.reactor->stats().rearm_found, 0U);

  t.engine->OnTimeout();
  t.reactor.RunReady();
  t.reactor.Advance(absl::Milliseconds(51));
  t.reactor->Tick();
  EXPECT_EQ(c.server.commands, 2U);
  EXPECT_GE(t.engine->TotalStats().rescued, 1U);
  t.faults().OnArm(nullptr);
}

ConnectionOptions OfDepth(uint32_t depth) {
  ConnectionOptions options;
  options.qp.depth = depth;
  return options;
}

void SendMany(Connection* c, uint16_t count) {
  for (uint16_t cid = 0; cid < count; ++cid) {
    c->host.Send(c->Command(kNothing, cid));
  }
}

// One command comes behind a whole queue of another's, all of it in the CQ: it
// waits for one of those, and a tick serves no more than a batch.
TEST(CqEngine, QueuePairsAreServedInTurns) {
  Transport t;
  Connection full(&t, OfDepth(64));
  Connection quiet(&t);
  t.Settle();
  SendMany(&full, 64);
  quiet.host.Send(quiet.Command(kNothing, 0));

  t.reactor->Tick();

  EXPECT_EQ(quiet.server.commands, 1U);
  EXPECT_EQ(full.server.commands, 31U);
  t.reactor->Tick();
  EXPECT_EQ(full.server.commands, 63U);
  t.reactor->Tick();
  EXPECT_EQ(full.server.commands, 64U);
  EXPECT_TRUE(quiet.RunUntilAnswered(1));
  EXPECT_TRUE(full.RunUntilAnswered(64));
}

// Notes what another host has been answered when each command is served.
class Witness final : public CapsuleHandler {
 public:
  explicit Witness(Connection* other) : other_(other) {}
  void OnCommand(CommandContext* command) override {
    other_->host.Poll();
    answered.push_back(other_->host.responses.size());
    command->qp->Release(command);
  }
  void OnDown(const char* /*why*/) override {}

  std::vector<size_t> answered;

 private:
  Connection* const other_;
};

// Its response does not wait for what the full one has for the tick.
TEST(CqEngine, WhoIsDoneIsAnsweredBeforeTheSecondTurns) {
  Transport t;
  Connection full(&t, OfDepth(8));
  Connection quiet(&t);
  Witness witness(&quiet);
  full.qp->set_handler(&witness);
  t.Settle();
  SendMany(&full, 8);
  quiet.host.Send(quiet.Command(kNothing, 0));

  t.reactor->Tick();

  EXPECT_THAT(witness.answered, ElementsAre(0, 1, 1, 1, 1, 1, 1, 1));
  full.qp->set_handler(&full.server);
}

TEST(CqEngine, ABrokenQueuePairHasNoTurn) {
  Transport t;
  Connection broken(&t, OfDepth(64));
  Connection other(&t, OfDepth(64));
  t.Settle();
  SendMany(&broken, 64);
  SendMany(&other, 64);
  t.reactor->Tick();
  ASSERT_EQ(broken.server.commands, 16U);

  broken.qp->Break("the test");

  t.reactor->Tick();
  t.reactor->Tick();
  EXPECT_EQ(broken.server.commands, 16U);
  EXPECT_EQ(other.server.commands, 64U);
}

// R11: the notification is lost. One safety period of sleep finds the
// completion, and says so.
TEST(CqEngine, SafetyPollRescuesASwallowedNotification) {
  Transport t;
  Connection c(&t);
  t.Settle();
  t.faults().SwallowNotifications(1);
  // Armed by now; the event of this command is lost.
  t.reactor->Sleep(absl::ZeroDuration());
  c.host.Send(c.Command(kNothing, 0));
  ASSERT_EQ(t.faults().swallowed_count(), 1);
  const uint64_t sleeps = t.reactor->stats().sleeps;

  // No Tick in between: only the sleep's end leads to the poll.
  t.engine->OnTimeout();
  t.reactor.RunReady();
  EXPECT_EQ(c.server.commands, 1U);
  t.reactor.Advance(absl::Milliseconds(49));
  t.reactor->Tick();
  EXPECT_EQ(t.engine->TotalStats().rescued, 0U);  // it may only be late
  t.reactor.Advance(absl::Milliseconds(2));
  t.reactor->Tick();

  EXPECT_GE(t.engine->TotalStats().rescued, 1U);
  EXPECT_EQ(t.reactor->stats().sleeps, sleeps);
  t.faults().SwallowNotifications(0);
  EXPECT_TRUE(c.RunUntilAnswered(1));
}

// The same while commands go on, each found by the safety poll: the CQ is armed
// again in time, and nothing waits for that poll any more.
TEST(CqEngine, SteadyTrafficDoesNotHideALostNotification) {
  Transport t;
  Connection c(&t);
  t.Settle();
  t.faults().SwallowNotifications(1);
  const uint64_t events = t.engine->TotalStats().events;

  for (uint16_t i = 0; i < 6; ++i) {
    c.host.Send(c.Command(kNothing, i));
    t.engine->OnTimeout();
    t.reactor.RunReady();
    t.faults().SwallowNotifications(0);
    t.reactor.Advance(absl::Milliseconds(10));
    t.reactor->Tick();
  }

  EXPECT_EQ(t.faults().swallowed_count(), 1);
  EXPECT_GE(t.engine->TotalStats().rescued, 5U);
  t.reactor->Sleep(absl::ZeroDuration());  // arms
  c.host.Send(c.Command(kNothing, 6));
  t.Settle();
  EXPECT_GT(t.engine->TotalStats().events, events);
  EXPECT_TRUE(c.RunUntilAnswered(7));
}

// The same through the reactor's own sleep, which nothing else would end: busy,
// it lasts 10 ms.
TEST(CqEngine, ReactorSleepsNoLongerThanASafetyPeriod) {
  Transport t;
  Connection c(&t);
  t.Settle();
  t.faults().SwallowNotifications(1);
  t.faults().DelaySends(absl::Milliseconds(5), FakeSide::kActive);
  c.host.Send(c.Command(kNothing, 0));

  for (int i = 0; i < 20 && c.server.commands == 0; ++i) {
    if (t.reactor->Tick() == 0) t.reactor->Sleep(absl::InfiniteDuration());
  }

  EXPECT_EQ(c.server.commands, 1U);
  t.faults().Clear();
  EXPECT_TRUE(c.RunUntilAnswered(1));
}

// An event that is only late is no rescue.
TEST(CqEngine, LateEventIsNoRescue) {
  Transport t;
  Connection c(&t);
  t.Settle();
  c.host.Send(c.Command(kNothing, 0));

  t.engine->OnTimeout();
  ASSERT_GT(t.engine->Poll(), 0);
  t.Settle();  // takes the event
  t.reactor.Advance(absl::Milliseconds(10));
  t.Settle();

  EXPECT_EQ(t.engine->TotalStats().rescued, 0U);
}

// What a destructor would hang on: the fabric CHECKs for events that were not
// acknowledged when a CQ goes.
TEST(CqEngine, EventsAreAcknowledgedBeforeTheQueueGoes) {
  Transport t;
  {
    Connection c(&t);
    for (uint16_t i = 0; i < 200; ++i) {
      c.host.Send(c.Command(kNothing, i));
      t.Settle();
      c.host.Poll();
    }
    EXPECT_GT(t.engine->TotalStats().events,
              uint64_t{CqEngineOptions().ack_batch});
    EXPECT_LT(t.device->queues()[0]->events_unacked,
              CqEngineOptions().ack_batch);
    c.host.Send(c.Command(kNothing, 201));  // an event nobody has taken yet
  }
  t.reactor->Sleep(absl::ZeroDuration());

  t.device.reset();

  EXPECT_EQ(t.fabric.live_objects().cqs, 0);
  EXPECT_EQ(t.fabric.live_objects().unacked_events, 0);
}

// R1, R2, R7: room comes from another queue, never from a larger one; the table
// of calls does not even know how to resize.
TEST(CqEngine, FullQueueGetsASecond) {
  TransportOptions options;
  options.local.cq_entries = 100;
  options.local.cq_count_max = 2;
  options.device.exact_cqe = true;
  Transport t(options);
  std::vector<std::unique_ptr<Connection>> connections;

  for (int i = 0; i < 2; ++i) {
    connections.push_back(std::make_unique<Connection>(&t));  // 64 entries each
    ASSERT_THAT(connections.back()->status, IsOk());
  }

  ASSERT_EQ(t.device->queues().size(), 2U);
  EXPECT_NE(connections[0]->qp->queue(), connections[1]->qp->queue());
  for (const auto& queue : t.device->queues()) {
    EXPECT_EQ(queue->cq->cqe, 100);
    EXPECT_EQ(queue->ledger.capacity(), 100U);
    EXPECT_EQ(queue->ledger.reserved(), 64U);
  }
  EXPECT_EQ(t.device->free_entries(), 72U);
  for (auto& c : connections) {
    c->host.Send(c->Command(kToHost, 3, 4, 512));
    EXPECT_TRUE(c->RunUntilAnswered(1));
  }

  Connection refused(&t);
  EXPECT_THAT(refused.status, StatusIs(absl::StatusCode::kResourceExhausted));

  // What goes makes room for what comes.
  connections.erase(connections.begin());
  Connection again(&t);
  EXPECT_THAT(again.status, IsOk());
  EXPECT_EQ(t.device->queues().size(), 2U);
}

TEST(CqEngine, QueueTooDeepForTheDeviceIsRefused) {
  TransportOptions options;
  options.local.cq_entries = 63;
  options.device.exact_cqe = true;
  Transport t(options);

  Connection c(&t);

  EXPECT_THAT(c.status, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(t.device->queue_pairs, 0U);
}

TEST(CqEngine, QueueThatCannotBeMadeIsNamed) {
  Transport t;
  t.faults().FailCall("create_cq", 3, ENOMEM);  // the host makes two

  Connection c(&t);

  EXPECT_THAT(c.status.ToString(), HasSubstr("ibv_create_cq"));
}

TEST(CqEngine, LostQueueTakesItsQueuePairsAndNoOthers) {
  TransportOptions options;
  options.local.cq_entries = 100;
  options.device.exact_cqe = true;
  Transport t(options);
  Connection lost(&t);
  Connection kept(&t);
  ASSERT_NE(lost.qp->queue(), kept.qp->queue());
  lost.server.hold = true;
  lost.host.Send(lost.Command(kToHost, 1, 4, 512));
  t.Settle();

  CompletionQueue* queue = lost.qp->queue();
  t.faults().BreakCq(queue->cq.get());
  // As the connection manager does on IBV_EVENT_CQ_ERR.
  ibv_async_event event;
  ASSERT_EQ(t.api().get_async_event(t.context(), &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event.element.cq, queue->cq.get());
  t.api().ack_async_event(&event);
  t.engine->MarkDead(queue, "CQ error event");
  t.engine->MarkDead(queue, "CQ error event");
  t.Settle();

  EXPECT_EQ(lost.server.downs, 1);
  EXPECT_FALSE(lost.qp->up());
  EXPECT_TRUE(kept.qp->up());
  kept.host.Send(kept.Command(kToHost, 2, 4, 512));
  EXPECT_TRUE(kept.RunUntilAnswered(1));
  // The dead one gives nothing out any more.
  Connection next(&t);
  ASSERT_THAT(next.status, IsOk());
  EXPECT_NE(next.qp->queue(), queue);
  lost.Close();
  EXPECT_EQ(queue->ledger.reserved(), 0U);
  EXPECT_EQ(queue->ledger.outstanding(), 0U);
}

// R32: completions of a queue pair that is gone, and of none that ever was.
TEST(CqEngine, StaleTagsAreDroppedAndCounted) {
  Transport t;
  Connection c(&t);
  const WrTag tags[] = {
      {.kind = WrKind::kSend, .qp_index = 500},
      {.kind = WrKind::kReceive, .qp_index = 0, .qp_generation = 99},
      {.kind = WrKind::kRead, .qp_index = 65535, .qp_generation = 65535}};

  for (const WrTag& tag : tags) {
    // The device says something nobody asked about.
    ibv_sge sge{};
    ibv_recv_wr wr{};
    wr.wr_id = tag.Pack();
    wr.sg_list = &sge;
    ibv_recv_wr* bad = nullptr;
    ibv_qp* qp = c.qp->id()->qp;
    // Beyond the depth a receive is refused: take one's place first.
    c.server.hold = true;
    c.host.Send(c.Command(kNothing, static_cast<uint16_t>(&tag - tags)));
    t.Settle();
    ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
  }
  const uint64_t before = t.engine->stale();
  c.qp->Break("flush");
  t.Settle();

  EXPECT_EQ(t.engine->stale(), before + 3);
  EXPECT_EQ(t.engine->TotalStats().stale, before + 3);
  EXPECT_TRUE(c.Close());
}

// A send's completion that comes twice, or for a slot that was used again.
TEST(CqEngine, StaleSlotsAreDroppedAndCounted) {
  Transport t;
  Connection c(&t);
  c.host.Send(c.Command(kNothing, 0));
  ASSERT_TRUE(c.RunUntilAnswered(1));
  t.Settle();
  ibv_wc completion{};
  completion.status = IBV_WC_SUCCESS;
  const WrTag tags[] = {{.kind = WrKind::kSend, .last = true},
                        {.kind = WrKind::kWrite, .slot = 65535},
                        {.kind = WrKind::kReceive, .slot = 65535},
                        {.kind = WrKind::kNone}};

  for (const WrTag& tag : tags) c.qp->OnCompletion(completion, tag);

  EXPECT_EQ(c.qp->stats().stale, 4U);
  EXPECT_TRUE(c.qp->up());
  c.host.Send(c.Command(kNothing, 1));
  EXPECT_TRUE(c.RunUntilAnswered(2));
}

TEST(CqEngine, IndexIsUsedAgainUnderANewGeneration) {
  Transport t;
  for (int i = 0; i < 3; ++i) {
    Connection c(&t);
    c.host.Send(c.Command(kNothing, 0));
    EXPECT_TRUE(c.RunUntilAnswered(1));
    EXPECT_TRUE(c.Close());
  }
  EXPECT_EQ(t.engine->stale(), 0U);
}

TEST(CqEngine, TakesNoMoreAtATimeThanItWasTold) {
  TransportOptions options;
  options.engine.poll_batch = 16;
  Transport t(options);
  ConnectionOptions deep;
  deep.qp.depth = 128;
  Connection c(&t, deep);
  for (uint16_t i = 0; i < 128; ++i) c.host.Send(c.Command(kNothing, i));
  ASSERT_TRUE(c.RunUntilAnswered(128));

  const CqStats stats = t.engine->TotalStats();
  EXPECT_GT(stats.batch_sizes[CqStats::BatchIndex(16)], 0U);
  EXPECT_EQ(stats.batch_sizes[CqStats::BatchIndex(17)], 0U);
  EXPECT_EQ(stats.batch_sizes[CqStats::BatchIndex(64)], 0U);
}

TEST(CqEngine, CountsCompletionsByKindStatusAndBatch) {
  Transport t;
  Connection c(&t);
  for (uint16_t i = 0; i < 8; ++i) {
    c.host.Send(c.Command(kToTarget, i, 1, 512));
  }
  ASSERT_TRUE(c.RunUntilAnswered(8));
  t.Settle();

  const CqStats stats = t.engine->TotalStats();
  const auto of = [&stats](WrKind kind) {
    return stats.by_kind[static_cast<size_t>(kind)];
  };
  EXPECT_EQ(of(WrKind::kReceive), 8U);
  EXPECT_EQ(of(WrKind::kRead), 8U);
  EXPECT_EQ(of(WrKind::kSend), 8U);
  EXPECT_EQ(stats.by_status[IBV_WC_SUCCESS], stats.completions);
  uint64_t batches = 0;
  for (const uint64_t count : stats.batch_sizes) batches += count;
  EXPECT_EQ(batches, stats.batches);

  c.Close();
  const CqStats after = t.engine->TotalStats();
  EXPECT_EQ(after.by_status[IBV_WC_WR_FLUSH_ERR], after.flushes);
  EXPECT_GT(after.flushes, 0U);
}

TEST(CqStats, BatchesAreCountedInPowersOfTwo) {
  EXPECT_EQ(CqStats::BatchIndex(1), 0U);
  EXPECT_EQ(CqStats::BatchIndex(2), 1U);
  EXPECT_EQ(CqStats::BatchIndex(3), 2U);
  EXPECT_EQ(CqStats::BatchIndex(4), 2U);
  EXPECT_EQ(CqStats::BatchIndex(33), 6U);
  EXPECT_EQ(CqStats::BatchIndex(64), CqStats::kBatchSizes - 1);
}

TEST(CqEngine, SolicitedOnlySleepsUntilAHostSaysThatItWaits) {
  TransportOptions options;
  options.engine.solicited_only = true;
  Transport t(options);
  Connection c(&t);
  t.Settle();
  const uint64_t before = t.engine->TotalStats().events;

  c.host.Send(c.Command(kNothing, 0));
  t.reactor->Sleep(absl::ZeroDuration());
  t.reactor->Sleep(absl::ZeroDuration());
  EXPECT_EQ(t.engine->TotalStats().events, before);
  ASSERT_TRUE(c.RunUntilAnswered(1));
  t.Settle();

  c.host.solicits = true;
  c.host.Send(c.Command(kNothing, 1));
  t.reactor->Sleep(absl::ZeroDuration());
  t.reactor.RunReady();
  EXPECT_GT(t.engine->TotalStats().events, before);
  EXPECT_EQ(t.engine->TotalStats().rescued, 0U);
  EXPECT_TRUE(c.RunUntilAnswered(2));
}

// With its own work under way every completion must wake it.
TEST(CqEngine, SolicitedOnlyStillHearsOfItsOwnWork) {
  TransportOptions options;
  options.engine.solicited_only = true;
  Transport t(options);
  Connection c(&t);
  c.host.solicits = true;
  t.Settle();
  t.faults().HoldSends(FakeSide::kPassive);
  c.host.Send(c.Command(kToTarget, 0, 1, 512));
  t.Settle();
  const uint64_t before = t.engine->TotalStats().events;

  t.faults().ReleaseSends();  // the READ completes
  t.reactor->Sleep(absl::ZeroDuration());
  t.reactor.RunReady();

  EXPECT_GT(t.engine->TotalStats().events, before);
  EXPECT_TRUE(c.RunUntilAnswered(1));
  t.Settle();
  EXPECT_EQ(t.device->queues()[0]->sends_out, 0U);
}

TEST(CqEngine, AChannelThatFailsTakesItsQueuesAlongAndTheNextHaveANewOne) {
  Transport t;
  {
    Connection c(&t);
    t.Settle();
    t.faults().FailCall("get_cq_event", 1, EIO);
    c.host.Send(c.Command(kNothing, 0));
    t.Settle();

    EXPECT_EQ(c.server.downs, 1);
    EXPECT_EQ(c.server.why, "its completion channel failed");
    EXPECT_EQ(t.engine->recovery()->channel_failures, 1U);
    EXPECT_EQ(t.engine->recovery()->cqs_lost, 1U);
  }

  Connection next(&t);
  ASSERT_TRUE(next.status.ok()) << next.status;
  t.Settle();
  const uint64_t events = t.engine->TotalStats().events;
  next.host.Send(next.Command(kToTarget, 1, 1, 512));
  ASSERT_TRUE(next.RunUntilAnswered(1));
  t.Settle();
  EXPECT_GT(t.engine->TotalStats().events, events);
  EXPECT_EQ(t.engine->TotalStats().rescued, 0U);
  EXPECT_EQ(t.engine->recovery()->channel_failures, 1U);
}

// Queue pairs that all go at once flush all that they had: no more than a batch
// of it stands before somebody else's command in each tick.
TEST(CqEngine, AFlushStormHoldsUpNobodyForLong) {
  constexpr uint32_t kDepth = 64;
  constexpr size_t kBroken = 8;
  TransportOptions large;
  large.pool_bytes = size_t{16} << 20;
  Transport t(large);
  ConnectionOptions options;
  options.qp.depth = kDepth;
  std::vector<std::unique_ptr<Connection>> broken;
  for (size_t i = 0; i < kBroken; ++i) {
    broken.push_back(std::make_unique<Connection>(&t, options));
  }
  Connection other(&t, options);
  t.Settle();

  for (const auto& each : broken) t.faults().BreakQp(each->qp->id()->qp);
  other.host.Send(other.Command(kNothing, 0));
  uint32_t ticks = 0;
  while (other.host.responses.empty() && ticks < 1000) {
    t.reactor->Tick();
    other.host.Poll();
    ++ticks;
  }

  EXPECT_LE(ticks, kBroken * kDepth / CqEngineOptions().poll_batch + 4);
  t.Settle();
  EXPECT_EQ(t.engine->TotalStats().flushes, kBroken * kDepth);
  for (const auto& each : broken) EXPECT_TRUE(each->Close());
}

}  // namespace
}  // namespace sluice::transport
