// Injected faults.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/unit/support/fake_pair.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class FakeFaultsTest : public testing::Test {
 protected:
  ibv_event_type TakeAsyncEvent() {
    ibv_context* context = pair_.active.id->verbs;
    SetNonblocking(context->async_fd);
    ibv_async_event event = {};
    EXPECT_EQ(api_.get_async_event(context, &event), 0);
    api_.ack_async_event(&event);
    return event.event_type;
  }

  FakeFabric fabric_;
  FakeFaults& faults_ = fabric_.faults();
  const VerbsApi& api_ = fabric_.api();
  FakePair pair_{&fabric_};
};

TEST_F(FakeFaultsTest, NthCallFailsInItsOwnStyle) {
  ibv_context* context = pair_.active.id->verbs;
  faults_.FailCall("alloc_pd", 2, ENOMEM);
  faults_.FailCall("modify_qp", 1, EIO);
  faults_.FailCall("listen", 1, EACCES);

  ibv_pd* first = api_.alloc_pd(context);
  errno = 0;
  ibv_pd* second = api_.alloc_pd(context);
  const int second_errno = errno;
  ibv_pd* third = api_.alloc_pd(context);
  ibv_qp_attr attr = {};

  EXPECT_NE(first, nullptr);
  EXPECT_EQ(second, nullptr);
  EXPECT_EQ(second_errno, ENOMEM);
  EXPECT_NE(third, nullptr);
  EXPECT_EQ(api_.modify_qp(pair_.active.id->qp, &attr, 0), EIO);
  EXPECT_EQ(api_.modify_qp(pair_.active.id->qp, &attr, 0), 0);
  EXPECT_EQ(api_.listen(pair_.active.id, 1), -1);
  EXPECT_EQ(errno, EACCES);
  EXPECT_EQ(faults_.failed_call_count(), 3);
  EXPECT_EQ(faults_.call_count("modify_qp"), 2);
  api_.dealloc_pd(first);
  api_.dealloc_pd(third);
}

TEST_F(FakeFaultsTest, CallsMayFailSeveralTimes) {
  faults_.FailCall("alloc_pd", 1, ENOMEM, 2);
  ibv_context* context = pair_.active.id->verbs;

  EXPECT_EQ(api_.alloc_pd(context), nullptr);
  EXPECT_EQ(api_.alloc_pd(context), nullptr);
  ibv_pd* pd = api_.alloc_pd(context);

  EXPECT_NE(pd, nullptr);
  api_.dealloc_pd(pd);
}

TEST_F(FakeFaultsTest, AnyCallSkipsReleases) {
  ibv_context* context = pair_.active.id->verbs;
  faults_.FailAnyCall(2, ENOMEM);
  const int before = faults_.any_call_count();

  ibv_pd* pd = api_.alloc_pd(context);
  EXPECT_EQ(api_.dealloc_pd(pd), 0);
  EXPECT_EQ(api_.create_comp_channel(context), nullptr);

  EXPECT_EQ(faults_.any_call_count(), before + 2);
}

TEST_F(FakeFaultsTest, SwallowsEveryNthNotification) {
  faults_.SwallowNotifications(2);
  int heard = 0;
  for (uint64_t i = 0; i < 4; ++i) {
    pair_.passive.PostRecv(i);
    ibv_req_notify_cq(pair_.passive.recv_cq, 0);
    pair_.active.PostSend(i);
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    if (api_.get_cq_event(pair_.passive.channel, &cq, &context) != 0) continue;
    ++heard;
    api_.ack_cq_events(cq, 1);
  }

  EXPECT_EQ(heard, 2);
  EXPECT_EQ(faults_.swallowed_count(), 2);
  EXPECT_THAT(Poll(pair_.passive.recv_cq), SizeIs(4));
}

TEST_F(FakeFaultsTest, OnArmSlipsACompletionBetweenPollAndArming) {
  pair_.passive.PostRecv(1);
  faults_.OnArm([this](ibv_cq* cq) {
    if (cq == pair_.passive.recv_cq) pair_.active.PostSend(1);
  });
  EXPECT_THAT(Poll(pair_.passive.recv_cq), IsEmpty());

  ibv_req_notify_cq(pair_.passive.recv_cq, 0);

  faults_.OnArm(nullptr);
  EXPECT_FALSE(IsReadable(pair_.passive.channel->fd));
  EXPECT_THAT(Poll(pair_.passive.recv_cq), SizeIs(1));
}

TEST_F(FakeFaultsTest, HeldSendsNeitherMoveNorComplete) {
  faults_.HoldSends(FakeSide::kActive);
  pair_.passive.PostRecv(1);
  pair_.active.PostRecv(2, 1000);
  std::strcpy(pair_.active.buffer.data(), "held");

  pair_.active.PostSend(3);
  pair_.passive.PostSend(4, IBV_WR_SEND, IBV_SEND_SIGNALED, 100);
  EXPECT_THAT(Poll(pair_.active.send_cq), IsEmpty());
  EXPECT_EQ(pair_.passive.buffer[0], 0);
  EXPECT_THAT(Poll(pair_.passive.send_cq), SizeIs(1));  // the other side

  faults_.ReleaseSends();

  EXPECT_THAT(WrIds(Poll(pair_.active.send_cq)), ElementsAre(3));
  EXPECT_STREQ(pair_.passive.buffer.data(), "held");
}

TEST_F(FakeFaultsTest, DelayedSendsCompleteByThemselves) {
  faults_.DelaySends(absl::Milliseconds(5));
  pair_.passive.PostRecv(1);
  const int fd = pair_.passive.channel->fd;
  ASSERT_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK), 0);
  ibv_req_notify_cq(pair_.passive.recv_cq, 0);

  pair_.active.PostSend(2);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  ASSERT_EQ(api_.get_cq_event(pair_.passive.channel, &cq, &context), 0);

  api_.ack_cq_events(cq, 1);
  EXPECT_THAT(WrIds(Poll(cq)), ElementsAre(1));
}

TEST_F(FakeFaultsTest, DeviceThatNeverFlushes) {
  faults_.DropFlushCompletions(true, FakeSide::kPassive);
  pair_.active.PostRecv(1);
  pair_.passive.PostRecv(2);

  api_.disconnect(pair_.passive.id);

  EXPECT_THAT(Poll(pair_.passive.recv_cq), IsEmpty());
  EXPECT_THAT(Poll(pair_.active.recv_cq), SizeIs(1));
  EXPECT_EQ(fabric_.qp_state(pair_.passive.id->qp), IBV_QPS_ERR);
}

TEST_F(FakeFaultsTest, RaisesAsyncEvents) {
  faults_.PortEvent("fake0", false);
  faults_.PortEvent("fake0", true);
  faults_.DeviceFatal("fake0");
  EXPECT_EQ(TakeAsyncEvent(), IBV_EVENT_PORT_ERR);
  EXPECT_EQ(TakeAsyncEvent(), IBV_EVENT_PORT_ACTIVE);
  EXPECT_EQ(TakeAsyncEvent(), IBV_EVENT_DEVICE_FATAL);

  faults_.BreakQp(pair_.active.id->qp);
  EXPECT_EQ(TakeAsyncEvent(), IBV_EVENT_QP_FATAL);
  EXPECT_EQ(fabric_.qp_state(pair_.active.id->qp), IBV_QPS_ERR);

  faults_.BreakCq(pair_.passive.recv_cq);
  EXPECT_EQ(TakeAsyncEvent(), IBV_EVENT_CQ_ERR);
  EXPECT_FALSE(fabric_.cq_alive(pair_.passive.recv_cq));
  EXPECT_EQ(fabric_.qp_state(pair_.passive.id->qp), IBV_QPS_ERR);
}

TEST_F(FakeFaultsTest, RemovedDeviceComesBackAsAnother) {
  ibv_context* old_context = pair_.active.id->verbs;
  pair_.passive.PostRecv(1);

  faults_.RemoveDevice("fake0");

  EXPECT_EQ(TakeAsyncEvent(), IBV_EVENT_DEVICE_FATAL);
  TakeEvent(api_, pair_.active_events, RDMA_CM_EVENT_DEVICE_REMOVAL);
  TakeEvent(api_, pair_.passive_events, RDMA_CM_EVENT_DEVICE_REMOVAL);
  TakeEvent(api_, pair_.passive_events, RDMA_CM_EVENT_DEVICE_REMOVAL);
  EXPECT_THAT(Statuses(Poll(pair_.passive.recv_cq)),
              ElementsAre(IBV_WC_WR_FLUSH_ERR));
  EXPECT_EQ(api_.alloc_pd(old_context), nullptr);
  EXPECT_EQ(pair_.active.PostSend(1), EIO);
  int count = -1;
  api_.free_devices(api_.get_devices(&count));
  EXPECT_EQ(count, 0);

  faults_.ReturnDevice("fake0");

  EXPECT_NE(fabric_.context("fake0"), old_context);
}

TEST_F(FakeFaultsTest, WildcardListenerSurvivesRemoval) {
  rdma_event_channel* channel = api_.create_event_channel();
  SetNonblocking(channel->fd);
  rdma_cm_id* listener = nullptr;
  api_.create_id(channel, &listener, nullptr, RDMA_PS_TCP);
  sockaddr_in any = V4("0.0.0.0", 4420);
  api_.bind_addr(listener, Raw(any));
  api_.listen(listener, 1);

  faults_.RemoveDevice("fake0");

  EXPECT_FALSE(IsReadable(channel->fd));
  api_.destroy_id(listener);
  api_.destroy_event_channel(channel);
}

// As siw: the WRITE's pages are read after the SEND behind it was completed.
TEST_F(FakeFaultsTest, LatePayloadShowsAnEarlyReuse) {
  faults_.LatePayload(64);
  pair_.passive.PostRecv(1, 1000);
  std::strcpy(pair_.active.buffer.data(), "right");
  pair_.active.PostRdma(2, IBV_WR_RDMA_WRITE, pair_.passive, 0);
  pair_.active.PostSend(3, IBV_WR_SEND, IBV_SEND_SIGNALED, 512, 8);
  EXPECT_THAT(Poll(pair_.passive.recv_cq), IsEmpty());  // on the wire

  EXPECT_THAT(WrIds(Poll(pair_.active.send_cq)), ElementsAre(3));
  std::strcpy(pair_.active.buffer.data(), "wrong");  // the bug
  EXPECT_THAT(Poll(pair_.active.send_cq), IsEmpty());

  EXPECT_THAT(WrIds(Poll(pair_.passive.recv_cq)), ElementsAre(1));
  EXPECT_STREQ(pair_.passive.buffer.data(), "wrong");
}

TEST_F(FakeFaultsTest, SignalledWriteIsSafeToReuse) {
  faults_.LatePayload(64);
  pair_.passive.PostRecv(1, 1000);
  std::strcpy(pair_.active.buffer.data(), "right");
  pair_.active.PostRdma(2, IBV_WR_RDMA_WRITE, pair_.passive);
  pair_.active.PostSend(3, IBV_WR_SEND, IBV_SEND_SIGNALED, 512, 8);
  EXPECT_THAT(WrIds(Poll(pair_.active.send_cq)), ElementsAre(2, 3));

  std::strcpy(pair_.active.buffer.data(), "wrong");

  EXPECT_STREQ(pair_.passive.buffer.data(), "right");
}

TEST_F(FakeFaultsTest, SignalledWritePushesOutALateOne) {
  faults_.LatePayload(64, 1000);
  std::strcpy(pair_.active.buffer.data(), "one");
  std::strcpy(pair_.active.buffer.data() + 64, "two");
  pair_.active.PostRdma(1, IBV_WR_RDMA_WRITE, pair_.passive, 0);
  EXPECT_EQ(pair_.passive.buffer[0], 0);

  pair_.active.PostRdma(2, IBV_WR_RDMA_WRITE, pair_.passive, IBV_SEND_SIGNALED,
                        64);

  EXPECT_STREQ(pair_.passive.buffer.data(), "one");
  EXPECT_STREQ(pair_.passive.buffer.data() + 64, "two");
}

TEST_F(FakeFaultsTest, ArmingPushesOutLatePayloads) {
  faults_.LatePayload(64, 1000);
  pair_.passive.PostRecv(1, 1000);
  pair_.active.PostRdma(2, IBV_WR_RDMA_WRITE, pair_.passive, 0);
  pair_.active.PostSend(3, IBV_WR_SEND, IBV_SEND_SIGNALED, 512, 8);
  ibv_req_notify_cq(pair_.active.send_cq, 0);
  EXPECT_THAT(Poll(pair_.passive.recv_cq), IsEmpty());  // 3 is not polled yet

  EXPECT_THAT(Poll(pair_.active.send_cq), SizeIs(1));
  ibv_req_notify_cq(pair_.active.send_cq, 0);

  EXPECT_THAT(Poll(pair_.passive.recv_cq), SizeIs(1));
}

TEST_F(FakeFaultsTest, ClearForgetsAndReleases) {
  faults_.HoldSends();
  faults_.FailAnyCall(1, ENOMEM);
  faults_.LatePayload(1);
  pair_.active.PostRdma(1, IBV_WR_RDMA_WRITE, pair_.passive);

  faults_.Clear();

  EXPECT_THAT(Poll(pair_.active.send_cq), SizeIs(1));
  ibv_pd* pd = api_.alloc_pd(pair_.active.id->verbs);
  EXPECT_NE(pd, nullptr);
  api_.dealloc_pd(pd);
}

// The two sides in threads of their own, each sleeping on its channel.
TEST_F(FakeFaultsTest, TwoThreadsPingPong) {
  constexpr int kRounds = 2000;
  const auto play = [](FakeNode* node, bool starts) {
    const int fd = node->channel->fd;
    EXPECT_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK), 0);
    if (starts) node->PostSend(0);
    int received = 0;
    unsigned int events = 0;
    while (received < kRounds) {
      ibv_req_notify_cq(node->recv_cq, 0);
      int found = static_cast<int>(Poll(node->recv_cq).size());
      if (found == 0) {
        ibv_cq* cq = nullptr;
        void* context = nullptr;
        EXPECT_EQ(node->api->get_cq_event(node->channel, &cq, &context), 0);
        ++events;
        found = static_cast<int>(Poll(node->recv_cq).size());
      }
      for (int i = 0; i < found; ++i) {
        ++received;
        EXPECT_EQ(node->PostRecv(0), 0);
        if (!starts || received < kRounds) {
          Poll(node->send_cq);
          EXPECT_EQ(node->PostSend(0, IBV_WR_SEND, IBV_SEND_SIGNALED, 128), 0);
        }
      }
    }
    node->api->ack_cq_events(node->recv_cq, events);
  };
  for (FakeNode* node : {&pair_.active, &pair_.passive}) {
    for (int i = 0; i < 4; ++i) node->PostRecv(0);
  }

  std::thread other(play, &pair_.passive, false);
  play(&pair_.active, true);
  other.join();

  EXPECT_EQ(fabric_.overflow_count(), 0u);
}

}  // namespace
}  // namespace sluice
