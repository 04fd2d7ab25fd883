// Completion queues that overflow, and notifications [iwarp §4.5, §4.6].
#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "tests/verbs/pair.h"

namespace sluice::verbs {
namespace {

class CqOverflow : public Verbs {
 protected:
  // A pair whose active side's send CQ is small.
  static PairOptions Options(int cqe) {
    PairOptions options;
    options.active.cqe = cqe;
    options.active.send_wr = 64;
    return options;
  }
  // Unpolled completions of WRITEs: how many were posted.
  static uint64_t PostWrites(Pair* pair, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      if (pair->active->PostWrite(i, pair->active->Sge(0, 64),
                                  pair->passive->At(0)) != 0) {
        return i;
      }
    }
    return count;
  }
};

TEST_F(CqOverflow, AllItsEntriesAreUsable) {
  Pair pair(Options(8));
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.active.get();
  const auto depth = static_cast<uint64_t>(end->send_cq->cqe);
  ASSERT_GE(depth, 8U);
  ASSERT_LT(depth, 64U);
  for (int round = 0; round < 3; ++round) {
    end->held = true;
    ASSERT_EQ(PostWrites(&pair, depth), depth);
    // Something behind them has come back: they are all done.
    PumpFor();
    end->held = false;
    const auto sent = end->TakeSent(depth);
    EXPECT_EQ(sent.size(), depth);
    for (const ibv_wc& wc : sent) EXPECT_EQ(StatusName(wc.status), "SUCCESS");
  }
  EXPECT_EQ(pair.async.Count(IBV_EVENT_CQ_ERR, end->send_cq), 0);
}

// One too many: the CQ is lost, its queue pairs with it, and what it held is
// still there.
TEST_F(CqOverflow, KillsTheCqAndItsQueuePairs) {
  Pair pair(Options(8));
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.active.get();
  const auto depth = static_cast<uint64_t>(end->send_cq->cqe);
  ASSERT_LT(depth + 8, 64U);
  end->held = true;
  ASSERT_GT(PostWrites(&pair, depth + 8), depth);
  if (Device().kind == DeviceKind::kIwarp) {
    // Progress is made by whoever polls: the receive CQ will do.
    ibv_wc wc;
    EXPECT_TRUE(Until([&] {
      EXPECT_EQ(ibv_poll_cq(end->recv_cq, 1, &wc), 0);
      return pair.async.Count(IBV_EVENT_CQ_ERR, end->send_cq) > 0;
    }));
  } else if (!Spared("event")) {
    EXPECT_TRUE(Until(
        [&] { return pair.async.Count(IBV_EVENT_CQ_ERR, end->send_cq) > 0; }));
  }
  if (Spared("queue pair")) return;
  EXPECT_TRUE(Until(
      [&] { return pair.async.Count(IBV_EVENT_QP_FATAL, end->qp()) > 0; }));
  EXPECT_EQ(end->State(), IBV_QPS_ERR);
  end->held = false;
  const auto sent = end->TakeSent(depth);
  EXPECT_EQ(sent.size(), depth);
  for (uint64_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(sent[i].wr_id, i);
    EXPECT_EQ(StatusName(sent[i].status), "SUCCESS");
  }
  EXPECT_TRUE(Until([=] { return end->send_cq_failed; }));
  EXPECT_FALSE(end->recv_cq_failed);
  PumpFor();
  EXPECT_EQ(pair.async.Count(IBV_EVENT_CQ_ERR, end->send_cq), 1);
  EXPECT_EQ(pair.async.Count(IBV_EVENT_QP_FATAL, end->qp()), 1);
  EXPECT_TRUE(pair.WaitDisconnected());
}

// Also those that have sent nothing, whatever their other CQs.
TEST_F(CqOverflow, TakesAllItsQueuePairsAlong) {
  Pair guilty(Options(8));
  ASSERT_TRUE(guilty.ok());
  PairOptions options;
  options.active.send_cq = guilty.active->send_cq;
  guilty.active->held = true;
  options.greet = false;  // its completion would be in the other's CQ
  Pair innocent(options);
  ASSERT_TRUE(innocent.ok());
  innocent.active->held = true;
  PostWrites(&guilty, 60);
  if (Spared("queue pair")) return;
  ibv_wc wc;
  EXPECT_TRUE(Until([&] {
    EXPECT_EQ(ibv_poll_cq(guilty.active->recv_cq, 1, &wc), 0);
    EXPECT_EQ(ibv_poll_cq(innocent.active->recv_cq, 1, &wc), 0);
    return guilty.active->State() == IBV_QPS_ERR &&
           innocent.active->State() == IBV_QPS_ERR;
  }));
  EXPECT_TRUE(Until(
      [&] { return innocent.passive_events.Has(RDMA_CM_EVENT_DISCONNECTED); }));
}

// And those that are not connected yet: they never will be.
TEST_F(CqOverflow, TakesTheUnconnectedAlong) {
  Pair guilty(Options(8));
  ASSERT_TRUE(guilty.ok());
  PairOptions options;
  options.active.send_cq = guilty.active->send_cq;
  options.connect = false;
  Pair innocent(options);
  ASSERT_TRUE(innocent.ok());
  guilty.active->held = true;
  innocent.active->held = true;
  PostWrites(&guilty, 60);
  if (Spared("queue pair")) return;
  ibv_wc wc;
  EXPECT_TRUE(Until([&] {
    EXPECT_EQ(ibv_poll_cq(guilty.active->recv_cq, 1, &wc), 0);
    return guilty.active->State() == IBV_QPS_ERR;
  }));

  Endpoint* end = innocent.active.get();
  rdma_conn_param param = Param(Depths());
  EXPECT_EQ(Api().connect(end->id, &param), -1);
  EXPECT_EQ(ErrnoName(errno), "EINVAL");
  EXPECT_EQ(end->State(), IBV_QPS_ERR);
  EXPECT_EQ(end->PostRecv(5, end->Sge(0, 64)), 0);
  end->held = false;
  EXPECT_EQ(Statuses(end->TakeReceived(1)), "WR_FLUSH_ERR");
  // Either takes the events of all.
  EXPECT_TRUE(Until([&] {
    return guilty.async.Count(IBV_EVENT_QP_FATAL, end->qp()) +
               innocent.async.Count(IBV_EVENT_QP_FATAL, end->qp()) ==
           1;
  }));
}

TEST_F(CqOverflow, OthersGoOn) {
  Pair healthy;
  ASSERT_TRUE(healthy.ok());
  {
    Pair pair(Options(4));
    ASSERT_TRUE(pair.ok());
    pair.active->held = true;
    PostWrites(&pair, 60);
    PumpFor();
    EXPECT_TRUE(healthy.Greet());
  }
  EXPECT_TRUE(healthy.Greet());
}

class Notify : public Verbs {
 protected:
  // Takes an event of the channel, and acknowledges it; null when there is
  // none.
  static ibv_cq* TakeEvent(ibv_comp_channel* channel) {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    if (Api().get_cq_event(channel, &cq, &context) != 0) {
      EXPECT_EQ(ErrnoName(errno), "EAGAIN");
      return nullptr;
    }
    Api().ack_cq_events(cq, 1);
    return cq;
  }
  static ibv_cq* WaitEvent(ibv_comp_channel* channel,
                           absl::Duration wait = kWait) {
    ibv_cq* cq = nullptr;
    (void)Until(
        [&] {
          cq = TakeEvent(channel);
          return cq != nullptr;
        },
        wait);
    return cq;
  }
  // A SEND of the active side that the passive one receives.
  static void Send(Pair* pair, unsigned flags = 0) {
    ASSERT_EQ(pair->passive->PostRecv(1, pair->passive->Sge(0, 64)), 0);
    ASSERT_EQ(pair->active->PostSend(2, pair->active->Sge(0, 64), flags), 0);
  }
  // Where a test wants to see the events alone.
  static void Arm(ibv_cq* cq, bool solicited_only = false) {
    ASSERT_EQ(ibv_req_notify_cq(cq, solicited_only ? 1 : 0), 0);
  }
};

TEST_F(Notify, NoEventUnlessArmed) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Send(&pair);
  EXPECT_EQ(Statuses(pair.passive->TakeReceived(1)), "SUCCESS");
  PumpFor();
  EXPECT_EQ(TakeEvent(pair.passive->recv_channel), nullptr);
}

TEST_F(Notify, OncePerArm) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.passive.get();
  for (int round = 0; round < 10; ++round) {
    Arm(end->recv_cq);
    for (int i = 0; i < 3; ++i) Send(&pair);
    EXPECT_EQ(WaitEvent(end->recv_channel), end->recv_cq);
    EXPECT_EQ(end->TakeReceived(3).size(), 3U);
    PumpFor(absl::Milliseconds(2));
    EXPECT_EQ(TakeEvent(end->recv_channel), nullptr);
  }
}

TEST_F(Notify, OnesOwnContextComesAlong) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.passive.get();
  Arm(end->recv_cq);
  Send(&pair);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  ASSERT_TRUE(Until([&] {
    return Api().get_cq_event(end->recv_channel, &cq, &context) == 0;
  }));
  EXPECT_EQ(cq, end->recv_cq);
  EXPECT_EQ(context, end);
  Api().ack_cq_events(cq, 1);
}

// What is in the queue already announces nothing.
TEST_F(Notify, NotForWhatIsThereAlready) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.passive.get();
  Send(&pair);
  // It is there: a READ behind it has come back.
  end->held = true;
  ASSERT_EQ(pair.active->PostRead(3, pair.active->Sge(0, 8), end->At(0)), 0);
  if (Device().kind == DeviceKind::kIwarp) {
    // Somebody has to make the progress, and takes nothing doing so.
    EXPECT_TRUE(Until([&] {
      ibv_wc wc;
      EXPECT_EQ(ibv_poll_cq(end->send_cq, 1, &wc), 0);
      return !pair.active->sent.empty();
    }));
  } else {
    EXPECT_EQ(pair.active->TakeSent(1).size(), 1U);
  }
  Arm(end->recv_cq);
  PumpFor();
  Check("event", TakeEvent(end->recv_channel) == nullptr ? "none" : "one",
        {"none"});
  // The next one does.
  end->held = false;
  Arm(end->recv_cq);
  Send(&pair);
  EXPECT_EQ(WaitEvent(end->recv_channel), end->recv_cq);
}

TEST_F(Notify, DescriptorIsReadable) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.passive.get();
  Arm(end->recv_cq);
  PumpFor();
  EXPECT_EQ(TakeEvent(end->recv_channel), nullptr);
  EXPECT_FALSE(IsReadable(end->recv_channel->fd));
  end->held = true;  // nobody polls: the descriptor alone says it
  Send(&pair);
  EXPECT_TRUE(Until([=] { return IsReadable(end->recv_channel->fd); }));
  EXPECT_EQ(WaitEvent(end->recv_channel), end->recv_cq);
  EXPECT_EQ(TakeEvent(end->recv_channel), nullptr);
  EXPECT_FALSE(IsReadable(end->recv_channel->fd));
}

// As long as nobody has set O_NONBLOCK, the call waits by itself.
TEST_F(Notify, BlockingCallWaits) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.passive.get();
  const int fd = end->recv_channel->fd;
  ASSERT_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK), 0);
  for (int round = 0; round < 10; ++round) {
    Arm(end->recv_cq);
    Send(&pair);
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    ASSERT_EQ(Api().get_cq_event(end->recv_channel, &cq, &context), 0);
    EXPECT_EQ(cq, end->recv_cq);
    Api().ack_cq_events(cq, 1);
    EXPECT_EQ(Statuses(end->TakeReceived(1)), "SUCCESS");
  }
}

TEST_F(Notify, SolicitedOnly) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.passive.get();
  Arm(end->recv_cq, /*solicited_only=*/true);
  Send(&pair);
  EXPECT_EQ(end->TakeReceived(1).size(), 1U);
  PumpFor();
  EXPECT_EQ(TakeEvent(end->recv_channel), nullptr);
  Send(&pair, IBV_SEND_SOLICITED);
  if (Spared("solicited")) return;
  EXPECT_EQ(WaitEvent(end->recv_channel), end->recv_cq);
  EXPECT_EQ(end->TakeReceived(1).size(), 1U);
}

TEST_F(Notify, SolicitedWithInvalidation) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.passive.get();
  Region target(end->pd, 4096);
  Arm(end->recv_cq, /*solicited_only=*/true);
  ASSERT_EQ(end->PostRecv(1, end->Sge(0, 64)), 0);
  ASSERT_EQ(pair.active->Post({.wr_id = 1,
                               .opcode = IBV_WR_SEND_WITH_INV,
                               .sges = {pair.active->Sge(0, 64)},
                               .flags = IBV_SEND_SOLICITED,
                               .invalidate = target.rkey()}),
            0);
  EXPECT_EQ(WaitEvent(end->recv_channel), end->recv_cq);
}

// An error is always worth an event.
TEST_F(Notify, SolicitedOnlyAndAnError) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.passive.get();
  ASSERT_EQ(end->PostRecv(1, end->Sge(0, 64)), 0);
  Arm(end->recv_cq, /*solicited_only=*/true);
  ASSERT_EQ(end->Modify(IBV_QPS_ERR), 0);
  EXPECT_EQ(WaitEvent(end->recv_channel), end->recv_cq);
}

// The wider wish wins, whichever came first.
TEST_F(Notify, ArmingForLessTakesNothingBack) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.passive.get();
  Arm(end->recv_cq);
  Arm(end->recv_cq, /*solicited_only=*/true);
  Send(&pair);
  if (!Spared("all, then solicited")) {
    EXPECT_EQ(WaitEvent(end->recv_channel), end->recv_cq);
  }
  (void)end->TakeReceived(1);
  Arm(end->recv_cq, /*solicited_only=*/true);
  Arm(end->recv_cq);
  Send(&pair);
  EXPECT_EQ(WaitEvent(end->recv_channel), end->recv_cq);
}

TEST_F(Notify, SeveralCqsOnOneChannel) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.passive.get();
  ASSERT_EQ(end->send_channel, end->recv_channel);
  Arm(end->recv_cq);
  Arm(end->send_cq);
  Send(&pair);
  EXPECT_EQ(WaitEvent(end->recv_channel), end->recv_cq);
  ASSERT_EQ(end->PostRead(5, end->Sge(64, 64), pair.active->At(0)), 0);
  EXPECT_EQ(WaitEvent(end->recv_channel), end->send_cq);
}

// A channel each: a READ that is done wakes who waits for the send CQ alone.
TEST_F(Notify, ChannelOfTheSendCqAlone) {
  PairOptions options;
  options.passive.one_channel = false;
  Pair pair(options);
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.passive.get();
  end->held = true;
  for (int round = 0; round < 3; ++round) {
    Arm(end->send_cq);
    ASSERT_EQ(end->PostRead(5, end->Sge(64, 64), pair.active->At(0)), 0);
    ASSERT_TRUE(Until([=] { return IsReadable(end->send_channel->fd); }));
    ASSERT_EQ(WaitEvent(end->send_channel), end->send_cq);
    EXPECT_EQ(TakeEvent(end->recv_channel), nullptr);
    ibv_wc wc;
    EXPECT_EQ(ibv_poll_cq(end->send_cq, 1, &wc), 1);
  }
}

// Two queue pairs, each of which completes its READs where the other one has
// its receives: who sleeps over either channel is woken, whether or not
// somebody sleeps over the other one.
TEST_F(Notify, CrosswiseChannels) {
  PairOptions options;
  options.active.one_channel = false;
  Pair straight(options);
  ASSERT_TRUE(straight.ok());
  options.active.send_cq = straight.active->recv_cq;
  options.active.recv_cq = straight.active->send_cq;
  options.greet = false;  // either end could take its completions
  Pair crossed(options);
  ASSERT_TRUE(crossed.ok());
  Pair* pairs[] = {&straight, &crossed};
  ibv_comp_channel* channels[] = {straight.active->send_channel,
                                  straight.active->recv_channel};
  straight.active->held = crossed.active->held = true;
  std::atomic<int> asleep{0};
  std::atomic<int> done{0};
  std::atomic<int> woken{0};
  const auto wait = [&](int which) {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    bool slept = false;
    while (Api().get_cq_event(channels[which], &cq, &context) != 0) {
      if (!slept) ++asleep;
      slept = true;
      if (!IsReadable(channels[which]->fd, Scaled(absl::Seconds(5)))) break;
    }
    if (!slept) ++asleep;
    if (cq != nullptr) {
      Api().ack_cq_events(cq, 1);
      ++woken;
    }
    ++done;
  };
  for (int round = 0; round < 30; ++round) {
    const int waiters = round % 3 + 1;  // one bit each
    SCOPED_TRACE(waiters);
    asleep = done = woken = 0;
    int count = 0;
    std::vector<std::thread> threads;
    for (int which = 0; which < 2; ++which) {
      if ((waiters >> which & 1) == 0) continue;
      ++count;
      Endpoint* end = pairs[which]->active.get();
      Arm(end->send_cq);
      EXPECT_EQ(end->PostRead(5, end->Sge(0, 64), pairs[which]->passive->At(0)),
                0);
      threads.emplace_back(wait, which);
    }
    while (asleep < count) std::this_thread::yield();
    // The answers, which the passive sides give.
    EXPECT_TRUE(Until([&] { return done == count; }));
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(woken, count);
    ibv_wc wc;
    for (int which = 0; which < 2; ++which) {
      if ((waiters >> which & 1) == 0) continue;
      ASSERT_EQ(ibv_poll_cq(pairs[which]->active->send_cq, 1, &wc), 1);
      EXPECT_EQ(StatusName(wc.status), "SUCCESS");
    }
  }
}

TEST_F(Notify, DestroyDropsUnfetchedEvents) {
  ibv_comp_channel* channel = Api().create_comp_channel(Device().context);
  ASSERT_NE(channel, nullptr);
  SetNonblocking(channel->fd);
  {
    Pair pair;
    ASSERT_TRUE(pair.ok());
    Endpoint* end = pair.passive.get();
    Arm(end->recv_cq);
    Send(&pair);
    EXPECT_TRUE(Until([=] { return IsReadable(end->recv_channel->fd); }));
  }  // with the event in the channel
  EXPECT_EQ(TakeEvent(channel), nullptr);
  EXPECT_EQ(Api().destroy_comp_channel(channel), 0);
}

// ibv_destroy_cq waits for acknowledgements.
TEST_F(Notify, DestroyWaitsForAcknowledgements) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.passive.get();
  for (int i = 0; i < 2; ++i) {
    Arm(end->recv_cq);
    Send(&pair);
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    ASSERT_TRUE(Until([&] {
      return Api().get_cq_event(end->recv_channel, &cq, &context) == 0;
    }));
  }
  end->DestroyQp();
  ibv_cq* cq = std::exchange(end->recv_cq, nullptr);
  std::atomic<bool> destroyed{false};
  std::thread destroyer([&] {
    EXPECT_EQ(Api().destroy_cq(cq), 0);
    destroyed = true;
  });
  PumpFor();
  EXPECT_FALSE(destroyed);
  Api().ack_cq_events(cq, 1);
  PumpFor();
  EXPECT_FALSE(destroyed);
  Api().ack_cq_events(cq, 1);
  destroyer.join();
  EXPECT_TRUE(destroyed);
}

// Arm, poll until empty, sleep: no completion is ever slept over. One thread
// sends, the other one only wakes by events.
TEST_F(Notify, NoWakeUpIsLost) {
  const int rounds = 10'000 * Flags().scale;
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* active = pair.active.get();
  Endpoint* passive = pair.passive.get();
  active->held = passive->held = true;
  const ibv_sge ping = active->Sge(0, 64);
  const ibv_sge pong = passive->Sge(0, 64);
  std::atomic<int> lost{0};
  // Waits for one receive, with events alone.
  const auto wait = [&lost](Endpoint* end) {
    ibv_wc wc[2];
    while (true) {
      ibv_req_notify_cq(end->recv_cq, 0);
      int count = ibv_poll_cq(end->recv_cq, 1, wc);
      if (count != 0) return count == 1 && wc[0].status == IBV_WC_SUCCESS;
      if (!IsReadable(end->recv_channel->fd, Scaled(absl::Seconds(5)))) {
        ++lost;
        return false;
      }
      ibv_cq* cq = nullptr;
      void* context = nullptr;
      if (Api().get_cq_event(end->recv_channel, &cq, &context) == 0) {
        Api().ack_cq_events(cq, 1);
      }
    }
  };
  const auto reap = [](Endpoint* end) {
    ibv_wc wc[16];
    return ibv_poll_cq(end->send_cq, 16, wc) >= 0;
  };
  ASSERT_EQ(active->PostRecv(0, ping), 0);
  ASSERT_EQ(passive->PostRecv(0, pong), 0);
  std::thread server([&] {
    for (int i = 0; i < rounds; ++i) {
      if (!wait(passive) || !reap(passive)) return;
      if (passive->PostRecv(0, pong) != 0) return;
      if (passive->PostSend(0, pong) != 0) return;
    }
    // Its last word may still be on its way: only a poll sends it.
    for (int i = 0; i < 100 && reap(passive); ++i) std::this_thread::yield();
  });
  int done = 0;
  for (; done < rounds; ++done) {
    if (active->PostSend(0, ping) != 0) break;
    if (!wait(active) || !reap(active)) break;
    if (active->PostRecv(0, ping) != 0) break;
  }
  server.join();
  EXPECT_EQ(done, rounds);
  EXPECT_EQ(lost, 0);
}

}  // namespace
}  // namespace sluice::verbs
