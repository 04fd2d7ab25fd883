#include "transport/iwarp/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/unit/iwarp/wire_side.h"

namespace sluice::iwarp {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr absl::Duration kDelay = absl::Milliseconds(30);
// Longer than anything here takes, unless it never happens.
constexpr int kPatienceMs = 30'000;

// Both ends of a connection, on one completion channel: `active_` sends.
class FaultsTest : public ::testing::Test {
 protected:
  FaultsTest() {
    WireQpOptions options;
    options.sends = options.receives = 64;
    options.post = 32;
    active_ = side_.Connect(side_.port(), options);
    EXPECT_TRUE(side_.Until([&] { return side_.request_count() > 0; }));
    passive_ = side_.Accept(side_.NextRequest(), options);
    EXPECT_TRUE(side_.Until([&] {
      return active_->Saw(RDMA_CM_EVENT_ESTABLISHED) &&
             passive_->Saw(RDMA_CM_EVENT_ESTABLISHED);
    }));
  }
  ~FaultsTest() override { faults_.Clear(); }

  // SENDs of nothing, of these wr_ids.
  void Send(uint64_t first, uint64_t last) {
    for (uint64_t i = first; i <= last; ++i) {
      ibv_send_wr wr = {};
      wr.wr_id = i;
      wr.opcode = IBV_WR_SEND;
      side_.PostSend(active_, wr);
    }
  }
  static std::vector<uint64_t> WrIds(const WireConnection& connection) {
    std::vector<uint64_t> ids;
    for (const ibv_wc& wc : connection.completions) ids.push_back(wc.wr_id);
    return ids;
  }
  // Arms it and finds it empty.
  void Arm(WireConnection* connection) {
    EXPECT_EQ(ibv_req_notify_cq(connection->cq, 0), 0);
    ibv_wc wc;
    EXPECT_EQ(ibv_poll_cq(connection->cq, 1, &wc), 0);
  }
  // The CQ of the next event, without a wait; null: there is none.
  ibv_cq* NextEvent() {
    ibv_cq* cq = nullptr;
    void* context;
    if (side_.api().get_cq_event(passive_->cq->channel, &cq, &context) != 0) {
      return nullptr;
    }
    side_.api().ack_cq_events(cq, 1);
    return cq;
  }
  // The same, asleep until then: no CQ is polled meanwhile.
  ibv_cq* SleepForEvent() {
    while (true) {
      if (ibv_cq* cq = NextEvent()) return cq;
      pollfd wait = {passive_->cq->channel->fd, POLLIN, 0};
      if (poll(&wait, 1, kPatienceMs) == 0) return nullptr;
    }
  }

  Faults& faults_ = Faults::Get();
  WireSide side_;
  WireConnection* active_;
  WireConnection* passive_;
};

TEST_F(FaultsTest, LateCompletionHoldsBackItsWorkQueueOnly) {
  faults_.DelayCompletions(2, 0, absl::InfiniteDuration(), LateKind::kSends);

  Send(1, 4);

  ASSERT_TRUE(side_.Until([&] { return passive_->completions.size() == 4; }));
  EXPECT_THAT(WrIds(*active_), ElementsAre(1));
  EXPECT_EQ(faults_.waiting_count(), 3u);

  faults_.Release();

  EXPECT_EQ(faults_.waiting_count(), 0u);
  side_.Advance();
  EXPECT_THAT(WrIds(*active_), ElementsAre(1, 2, 3, 4));
}

TEST_F(FaultsTest, ReceivesAreLateToo) {
  faults_.DelayCompletions(1, 0, absl::InfiniteDuration(), LateKind::kReceives);

  Send(1, 2);

  ASSERT_TRUE(side_.Until([&] { return active_->completions.size() == 2; }));
  ASSERT_TRUE(side_.Until([&] { return faults_.waiting_count() == 2; }));
  EXPECT_THAT(passive_->completions, IsEmpty());
  faults_.Clear();
  side_.Advance();
  EXPECT_THAT(WrIds(*passive_),
              ElementsAre(WireSide::kReceiveId, WireSide::kReceiveId + 1));
}

TEST_F(FaultsTest, EachNthIsLateAndTheOrderKept) {
  const uint64_t late = faults_.late_count();
  faults_.DelayCompletions(3, 2, absl::Milliseconds(2), LateKind::kSends);
  std::vector<uint64_t> sent;
  for (uint64_t i = 1; i <= 9; ++i) {
    sent.push_back(i);
    Send(i, i);
    ASSERT_TRUE(side_.Until([&] { return active_->completions.size() == i; }));
  }

  EXPECT_EQ(WrIds(*active_), sent);
  EXPECT_EQ(faults_.late_count(), late + 4);  // 3, 5, 7, 9
}

TEST_F(FaultsTest, LateCompletionWakesWhoSleeps) {
  Arm(active_);
  faults_.DelayCompletions(1, 0, kDelay, LateKind::kSends);
  const absl::Time begin = absl::Now();

  Send(1, 1);

  EXPECT_EQ(SleepForEvent(), active_->cq);
  EXPECT_GE(absl::Now() - begin, kDelay);
  side_.Advance();
  EXPECT_THAT(WrIds(*active_), ElementsAre(1));
}

TEST_F(FaultsTest, ReleaseWakesWhoSleeps) {
  Arm(active_);
  faults_.DelayCompletions(1, 0, absl::InfiniteDuration(), LateKind::kSends);
  Send(1, 1);
  std::thread releaser([&] {
    absl::SleepFor(kDelay);
    faults_.Release();
  });

  EXPECT_EQ(SleepForEvent(), active_->cq);
  releaser.join();
}

TEST_F(FaultsTest, LateNotificationComesByItself) {
  Arm(passive_);
  faults_.DelayNotification(1, 0, kDelay);
  const absl::Time begin = absl::Now();

  Send(1, 1);

  EXPECT_EQ(SleepForEvent(), passive_->cq);
  EXPECT_GE(absl::Now() - begin, kDelay);
}

// Its completion is there meanwhile, and the CQ is not armed any more.
TEST_F(FaultsTest, LateNotificationIsOfThatArming) {
  Arm(passive_);
  faults_.DelayNotification(1, 0, absl::InfiniteDuration());

  Send(1, 2);

  ASSERT_TRUE(side_.Until([&] { return passive_->completions.size() == 2; }));
  EXPECT_EQ(NextEvent(), nullptr);
  EXPECT_EQ(faults_.waiting_count(), 1u);
  faults_.Release();
  EXPECT_EQ(NextEvent(), passive_->cq);
  EXPECT_EQ(NextEvent(), nullptr);
}

TEST_F(FaultsTest, SwallowedNotificationNeverComes) {
  Arm(passive_);
  const uint64_t swallowed = faults_.swallowed_count();
  faults_.SwallowNotification(1);

  Send(1, 1);

  ASSERT_TRUE(side_.Until([&] { return passive_->completions.size() == 1; }));
  EXPECT_EQ(faults_.swallowed_count(), swallowed + 1);
  faults_.Clear();
  EXPECT_EQ(NextEvent(), nullptr);
}

TEST_F(FaultsTest, DoubledNotificationComesTwice) {
  Arm(passive_);
  faults_.DoubleNotification(1);

  Send(1, 1);

  ASSERT_TRUE(side_.Until([&] { return passive_->completions.size() == 1; }));
  EXPECT_EQ(NextEvent(), passive_->cq);
  EXPECT_EQ(NextEvent(), passive_->cq);
  EXPECT_EQ(NextEvent(), nullptr);
  EXPECT_EQ(faults_.doubled_count(), 1u);
}

// R26: nothing of it is left when the queue pair goes, wherever it was.
TEST_F(FaultsTest, FlushesCanBeKeptForEver) {
  Arm(passive_);
  faults_.DelayCompletions(1, 1, absl::InfiniteDuration(), LateKind::kFlushes);
  faults_.DelayNotification(1, 0, absl::InfiniteDuration());
  Send(1, 1);
  ASSERT_TRUE(side_.Until([&] { return !passive_->completions.empty(); }));
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_ERR;

  EXPECT_EQ(side_.api().modify_qp(passive_->qp, &attr, IBV_QP_STATE), 0);

  ASSERT_TRUE(side_.Until([&] {
    return active_->Saw(RDMA_CM_EVENT_DISCONNECTED) &&
           passive_->Saw(RDMA_CM_EVENT_DISCONNECTED);
  }));
  EXPECT_EQ(passive_->completions.size(), 1u);
  EXPECT_GE(faults_.waiting_count(), 32u);  // 31 receives and a notification
  side_.Destroy(passive_);
  side_.Destroy(active_);
  EXPECT_EQ(faults_.waiting_count(), 0u);
}

TEST_F(FaultsTest, ClearGivesKeptFlushesBack) {
  faults_.DelayCompletions(1, 1, absl::InfiniteDuration(), LateKind::kFlushes);
  side_.api().disconnect(passive_->id);
  ASSERT_TRUE(side_.Until([&] { return faults_.waiting_count() == 64; }));

  faults_.Clear();

  side_.Advance();
  EXPECT_TRUE(active_->IsDrained());
  EXPECT_TRUE(passive_->IsDrained());
}

// The completion comes after the last empty poll, and is not announced.
TEST_F(FaultsTest, BeforeArmingIsBeforeIt) {
  faults_.DelayCompletions(1, 0, absl::InfiniteDuration(), LateKind::kReceives);
  Send(1, 1);
  ASSERT_TRUE(side_.Until([&] { return faults_.waiting_count() == 1; }));
  std::vector<ibv_cq*> armed;
  faults_.BeforeArming([&](ibv_cq* cq) {
    armed.push_back(cq);
    faults_.Release();
  });

  EXPECT_EQ(ibv_req_notify_cq(passive_->cq, 0), 0);
  faults_.BeforeArming(nullptr);

  EXPECT_THAT(armed, ElementsAre(passive_->cq));
  EXPECT_EQ(NextEvent(), nullptr);
  side_.Advance();
  EXPECT_EQ(passive_->completions.size(), 1u);
  // Armed it is.
  Send(2, 2);
  EXPECT_EQ(SleepForEvent(), passive_->cq);
}

TEST_F(FaultsTest, SparedThreadHasNone) {
  const uint64_t failed = faults_.failed_count();
  faults_.FailCall("alloc_pd", 1, ENOMEM);
  faults_.DelayCompletions(1, 1, absl::InfiniteDuration());
  ibv_context* context = passive_->id->verbs;

  Faults::SpareThisThread(true);
  ibv_pd* mine = side_.api().alloc_pd(context);
  ibv_pd* other = nullptr;
  std::thread([&] { other = side_.api().alloc_pd(context); }).join();
  Send(1, 1);
  EXPECT_TRUE(side_.Until([&] {
    return active_->completions.size() == 1 &&
           passive_->completions.size() == 1;
  }));
  Faults::SpareThisThread(false);

  ASSERT_NE(mine, nullptr);
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(faults_.failed_count(), failed + 1);
  EXPECT_EQ(side_.api().dealloc_pd(mine), 0);
}

// Faults come and go while completions come: each of those comes once, and in
// order.
TEST_F(FaultsTest, NothingIsLostWhileFaultsChange) {
  constexpr uint64_t kSends = 2000;
  std::atomic<bool> stop = false;
  std::thread changer([&] {
    for (uint64_t round = 0; !stop; ++round) {
      faults_.DelayCompletions(
          1 + round % 3, round % 4,
          round % 2 == 0 ? absl::InfiniteDuration() : absl::Microseconds(100));
      faults_.DelayNotification(1, 1, absl::Microseconds(50));
      std::this_thread::yield();
      if (round % 5 == 0) faults_.Release();
      if (round % 5 > 2) faults_.Clear();
    }
    faults_.Clear();
  });

  uint64_t received = 0;
  for (uint64_t i = 1; i <= kSends; ++i) {
    Send(i, i);
    ASSERT_TRUE(side_.Until([&] { return active_->completions.size() == i; }));
    EXPECT_EQ(active_->completions.back().wr_id, i);
    ASSERT_TRUE(side_.Until(
        [&] { return passive_->completions.size() == received + 1; }));
    EXPECT_EQ(passive_->completions.back().wr_id,
              WireSide::kReceiveId + received % 32);
    side_.PostReceive(passive_, WireSide::kReceiveId + received % 32);
    ++received;
    while (NextEvent() != nullptr) {
    }
    if (i % 3 == 0) ibv_req_notify_cq(passive_->cq, 0);
  }
  stop = true;
  changer.join();
  EXPECT_EQ(faults_.waiting_count(), 0u);
  EXPECT_FALSE(Faults::any());
}

}  // namespace
}  // namespace sluice::iwarp
