// Completion queues: depth, overflow, arming, notification, accounting.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/unit/support/fake_pair.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The event's CQ, acknowledged; null if there is none.
ibv_cq* TakeCqEvent(const FakeNode& node) {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (node.api->get_cq_event(node.channel, &cq, &context) != 0) {
    EXPECT_EQ(errno, EAGAIN);
    return nullptr;
  }
  EXPECT_EQ(context, &node);
  node.api->ack_cq_events(cq, 1);
  return cq;
}

TEST(FakeCq, RoundsUpUnlessExact) {
  FakeDeviceOptions exact;
  exact.exact_cqe = true;
  exact.max_cqe = 1000;
  FakeDeviceOptions rounding = exact;
  rounding.exact_cqe = false;
  FakeFabric fabric({exact, rounding});
  const VerbsApi& api = fabric.api();

  ibv_cq* a = api.create_cq(fabric.context("fake0"), 100, nullptr, nullptr, 0);
  ibv_cq* b = api.create_cq(fabric.context("fake1"), 100, nullptr, nullptr, 0);
  ibv_cq* c = api.create_cq(fabric.context("fake1"), 999, nullptr, nullptr, 0);

  EXPECT_EQ(a->cqe, 100);
  EXPECT_EQ(b->cqe, 127);
  EXPECT_EQ(c->cqe, 1000);
  for (ibv_cq* cq : {a, b, c}) EXPECT_EQ(api.destroy_cq(cq), 0);
}

TEST(FakeCq, RefusesTooDeepAndBadVector) {
  FakeFabric fabric;
  ibv_context* context = fabric.context("fake0");

  errno = 0;
  EXPECT_EQ(fabric.api().create_cq(context, 32768, nullptr, nullptr, 0),
            nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(fabric.api().create_cq(context, 0, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(fabric.api().create_cq(context, 8, nullptr, nullptr, 2), nullptr);
}

TEST(FakeCq, OverflowKillsItAndItsQueuePairs) {
  FakeDeviceOptions options;
  options.exact_cqe = true;
  FakeFabric fabric({options});
  FakePair pair(&fabric, {.cqe = 4});
  ibv_context* context = fabric.context("fake0");
  SetNonblocking(context->async_fd);
  for (uint64_t i = 0; i < 8; ++i) pair.passive.PostRecv(i);
  for (uint64_t i = 0; i < 4; ++i) pair.active.PostSend(i);
  EXPECT_EQ(fabric.cq_high_water(pair.active.send_cq), 4);
  EXPECT_TRUE(fabric.cq_alive(pair.active.send_cq));
  EXPECT_FALSE(IsReadable(context->async_fd));

  EXPECT_EQ(pair.active.PostSend(4), 0);

  EXPECT_FALSE(fabric.cq_alive(pair.active.send_cq));
  EXPECT_FALSE(fabric.cq_alive(pair.passive.recv_cq));  // five receives
  EXPECT_EQ(fabric.qp_state(pair.active.id->qp), IBV_QPS_ERR);
  EXPECT_EQ(fabric.qp_state(pair.passive.id->qp), IBV_QPS_ERR);
  EXPECT_EQ(fabric.overflow_count(), 2u);
  EXPECT_THAT(WrIds(Poll(pair.active.send_cq)), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Poll(pair.active.send_cq), IsEmpty());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(IsReadable(context->async_fd));
    ibv_async_event event = {};
    ASSERT_EQ(pair.api.get_async_event(context, &event), 0);
    EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
    pair.api.ack_async_event(&event);
  }
  ibv_async_event event = {};
  EXPECT_EQ(pair.api.get_async_event(context, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(FakeCq, NotifiesOncePerArming) {
  FakeFabric fabric;
  FakePair pair(&fabric);
  for (uint64_t i = 0; i < 4; ++i) pair.passive.PostRecv(i);

  pair.active.PostSend(0);
  EXPECT_EQ(TakeCqEvent(pair.passive), nullptr);  // not armed

  EXPECT_EQ(ibv_req_notify_cq(pair.passive.recv_cq, 0), 0);
  pair.active.PostSend(1);
  pair.active.PostSend(2);
  EXPECT_TRUE(IsReadable(pair.passive.channel->fd));
  EXPECT_EQ(TakeCqEvent(pair.passive), pair.passive.recv_cq);
  EXPECT_EQ(TakeCqEvent(pair.passive), nullptr);
  EXPECT_FALSE(IsReadable(pair.passive.channel->fd));
}

TEST(FakeCq, ArmingOverACompletionDoesNotNotify) {
  FakeFabric fabric;
  FakePair pair(&fabric);
  pair.passive.PostRecv(1);
  EXPECT_THAT(Poll(pair.passive.recv_cq), IsEmpty());

  pair.active.PostSend(1);  // between the empty poll and the arming
  EXPECT_EQ(ibv_req_notify_cq(pair.passive.recv_cq, 0), 0);

  EXPECT_EQ(TakeCqEvent(pair.passive), nullptr);  // who sleeps now is lost
  EXPECT_THAT(WrIds(Poll(pair.passive.recv_cq)), ElementsAre(1));
}

TEST(FakeCq, SolicitedArmingWaitsForSolicited) {
  FakeFabric fabric;
  FakePair pair(&fabric);
  for (uint64_t i = 0; i < 4; ++i) pair.passive.PostRecv(i);
  ibv_req_notify_cq(pair.passive.recv_cq, 1);

  pair.active.PostSend(0);
  EXPECT_EQ(TakeCqEvent(pair.passive), nullptr);
  pair.active.PostSend(1, IBV_WR_SEND, IBV_SEND_SOLICITED);
  EXPECT_EQ(TakeCqEvent(pair.passive), pair.passive.recv_cq);

  ibv_req_notify_cq(pair.passive.recv_cq, 1);
  EXPECT_EQ(pair.api.disconnect(pair.passive.id), 0);  // errors count too
  EXPECT_EQ(TakeCqEvent(pair.passive), pair.passive.recv_cq);
}

TEST(FakeCq, IsBusyWhileAQueuePairUsesIt) {
  FakeFabric fabric;
  FakePair pair(&fabric);

  EXPECT_EQ(pair.api.destroy_cq(pair.active.send_cq), EBUSY);
  EXPECT_EQ(pair.api.destroy_comp_channel(pair.active.channel), EBUSY);
}

TEST(FakeCq, DestroyingDropsEventsNotFetched) {
  FakeFabric fabric;
  FakePair pair(&fabric);
  pair.passive.PostRecv(1);
  ibv_req_notify_cq(pair.passive.recv_cq, 0);
  pair.active.PostSend(1);
  pair.api.destroy_qp(pair.passive.id);

  EXPECT_EQ(pair.api.destroy_cq(pair.passive.recv_cq), 0);

  EXPECT_FALSE(IsReadable(pair.passive.channel->fd));
  pair.passive.recv_cq =
      pair.api.create_cq(fabric.context("fake0"), 1, nullptr, nullptr, 0);
}

TEST(FakeCqDeathTest, UnacknowledgedEventsWouldHang) {
  FakeFabric fabric;
  FakePair pair(&fabric);
  pair.passive.PostRecv(1);
  ibv_req_notify_cq(pair.passive.recv_cq, 0);
  pair.active.PostSend(1);
  pair.api.destroy_qp(pair.passive.id);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  ASSERT_EQ(pair.api.get_cq_event(pair.passive.channel, &cq, &context), 0);
  EXPECT_EQ(fabric.live_objects().unacked_events, 1);

  EXPECT_DEATH(pair.api.destroy_cq(cq), "unacked_events == 0");
  EXPECT_DEATH(pair.api.ack_cq_events(cq, 2), "events_count");

  pair.api.ack_cq_events(cq, 1);
}

TEST(FakeCq, BlockingWaitIsWokenByAnotherThread) {
  FakeFabric fabric;
  FakePair pair(&fabric);
  const int fd = pair.passive.channel->fd;
  ASSERT_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK), 0);
  pair.passive.PostRecv(7);
  ibv_req_notify_cq(pair.passive.recv_cq, 0);

  std::thread sender([&] { pair.active.PostSend(1); });
  ibv_cq* cq = TakeCqEvent(pair.passive);
  sender.join();

  EXPECT_EQ(cq, pair.passive.recv_cq);
  EXPECT_THAT(WrIds(Poll(cq)), ElementsAre(7));
}

}  // namespace
}  // namespace sluice
