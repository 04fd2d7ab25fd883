// Queue pairs that share their receives, on socket pairs.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/raw_stream.h"
#include "transport/iwarp/calls.h"
#include "transport/iwarp/device.h"
#include "transport/iwarp/options.h"
#include "transport/iwarp/qp.h"

namespace sluice::iwarp {
namespace {

class SrqTest : public testing::Test {
 protected:
  SrqTest() {
    MutableOptions().receive_wait = absl::Seconds(30);
    context_ = Device::Get().shared_context()->verbs();
    EXPECT_EQ(fcntl(context_->async_fd, F_SETFL, O_NONBLOCK), 0);
    pd_ = AllocPd(context_);
    cq_ = CreateCq(context_, 64, nullptr, nullptr, 0);
    ibv_srq_init_attr attr = {};
    attr.attr.max_wr = 8;
    attr.attr.max_sge = 1;
    srq_ = CreateSrq(pd_, &attr);
  }
  ~SrqTest() override {
    EXPECT_EQ(DestroySrq(srq_), 0);
    EXPECT_EQ(DestroyCq(cq_), 0);
    EXPECT_EQ(DeallocPd(pd_), 0);
    MutableOptions() = Options();
  }

  ibv_qp* Attach(RawStream* raw) {
    ibv_qp_init_attr attr = {};
    attr.send_cq = attr.recv_cq = cq_;
    attr.srq = srq_;
    attr.qp_type = IBV_QPT_RC;
    attr.cap.max_send_wr = 4;
    ibv_qp* qp = CreateQp(pd_, &attr);
    int fds[2];
    EXPECT_EQ(
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
        0);
    *raw = RawStream(fds[1]);
    StreamOptions options;
    options.ird = options.ord = 1;
    EXPECT_TRUE(AttachStream(Qp::From(qp), fds[0], options));
    return qp;
  }

  void PostReceive(uint64_t wr_id) {
    ibv_recv_wr wr = {};
    wr.wr_id = wr_id;
    ibv_recv_wr* bad;
    ASSERT_EQ(PostSrqRecv(srq_, &wr, &bad), 0);
  }

  // What has come is taken at once: a socket pair has no delay.
  std::vector<ibv_wc> Poll() {
    std::vector<ibv_wc> all;
    ibv_wc wc;
    for (int i = 0; i < 4; ++i) {
      while (PollCq(cq_, 1, &wc) == 1) all.push_back(wc);
    }
    return all;
  }

  std::vector<ibv_event_type> Events() {
    std::vector<ibv_event_type> types;
    ibv_async_event event;
    while (GetAsyncEvent(context_, &event) == 0) {
      types.push_back(event.event_type);
      AckAsyncEvent(&event);
    }
    return types;
  }

  size_t waiting_count() const { return Srq::From(srq_)->waiting.size(); }

  static Bytes Send(uint32_t msn) {
    return Seal(Untagged(kSendLast, 0, 0, msn, 0), false);
  }

  ibv_context* context_;
  ibv_pd* pd_;
  ibv_cq* cq_;
  ibv_srq* srq_;
};

TEST_F(SrqTest, WhoWaitsGetsTheNextReceive) {
  RawStream raw;
  ibv_qp* qp = Attach(&raw);
  ASSERT_TRUE(raw.Send(Send(1) + Send(2)));
  EXPECT_EQ(Poll().size(), 0U);
  EXPECT_EQ(waiting_count(), 1U);

  PostReceive(7);
  const std::vector<ibv_wc> first = Poll();
  PostReceive(8);
  const std::vector<ibv_wc> second = Poll();

  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].wr_id, 7u);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].wr_id, 8u);
  EXPECT_EQ(waiting_count(), 0U);
  EXPECT_EQ(DestroyQp(qp), 0);
}

// No more than have something to take, and those first that came first.
TEST_F(SrqTest, AReceiveWakesOne) {
  constexpr size_t kCount = 5;
  RawStream raws[kCount];
  std::vector<ibv_qp*> qps;
  for (RawStream& raw : raws) {
    qps.push_back(Attach(&raw));
    ASSERT_TRUE(raw.Send(Send(1)));
    EXPECT_EQ(Poll().size(), 0U);
  }
  EXPECT_EQ(waiting_count(), kCount);

  for (size_t i = 0; i < kCount; ++i) {
    PostReceive(i);
    EXPECT_EQ(waiting_count(), kCount - i - 1);
    const std::vector<ibv_wc> done = Poll();
    ASSERT_EQ(done.size(), 1U);
    EXPECT_EQ(done[0].qp_num, qps[i]->qp_num);
  }
  for (ibv_qp* qp : qps) EXPECT_EQ(DestroyQp(qp), 0);
}

// Whose receive another one took is the next again.
TEST_F(SrqTest, WhoFindsNothingKeepsItsTurn) {
  RawStream raws[3];
  ibv_qp* qps[3];
  for (int i = 0; i < 2; ++i) {
    qps[i] = Attach(&raws[i]);
    ASSERT_TRUE(raws[i].Send(Send(1)));
    EXPECT_EQ(Poll().size(), 0U);
  }
  qps[2] = Attach(&raws[2]);
  Poll();
  PostReceive(1);
  ReceiveEntry entry;
  ibv_sge sges[kSgeMax];
  ASSERT_TRUE(TakeShared(Srq::From(srq_), Qp::From(qps[2]), &entry, sges));

  EXPECT_EQ(Poll().size(), 0U);
  EXPECT_EQ(waiting_count(), 2U);
  PostReceive(2);
  const std::vector<ibv_wc> done = Poll();

  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].qp_num, qps[0]->qp_num);
  for (ibv_qp* qp : qps) EXPECT_EQ(DestroyQp(qp), 0);
}

// One that ends between its wake-up and its turn.
TEST_F(SrqTest, ATurnIsPassedOn) {
  for (const bool destroyed : {false, true}) {
    RawStream first;
    ibv_qp* dying = Attach(&first);
    ASSERT_TRUE(first.Send(Send(1)));
    EXPECT_EQ(Poll().size(), 0U);
    RawStream second;
    ibv_qp* next = Attach(&second);
    ASSERT_TRUE(second.Send(Send(1)));
    EXPECT_EQ(Poll().size(), 0U);
    PostReceive(7);

    if (destroyed) {
      EXPECT_EQ(DestroyQp(dying), 0);
    } else {
      ibv_qp_attr attr = {};
      attr.qp_state = IBV_QPS_ERR;
      EXPECT_EQ(ModifyQp(dying, &attr, IBV_QP_STATE), 0);
    }

    const std::vector<ibv_wc> done = Poll();
    ASSERT_EQ(done.size(), 1U);
    EXPECT_EQ(done[0].qp_num, next->qp_num);
    if (!destroyed) {
      EXPECT_EQ(DestroyQp(dying), 0);
    }
    EXPECT_EQ(DestroyQp(next), 0);
  }
}

// Peers that come, send and go leave nothing behind.
TEST_F(SrqTest, WhoIsGoneDoesNotWait) {
  for (int i = 0; i < 100; ++i) {
    RawStream raw;
    ibv_qp* qp = Attach(&raw);
    ASSERT_TRUE(raw.Send(Send(1)));
    EXPECT_EQ(Poll().size(), 0U);
    EXPECT_EQ(waiting_count(), 1U);

    EXPECT_EQ(DestroyQp(qp), 0);

    EXPECT_EQ(waiting_count(), 0U);
  }
}

TEST_F(SrqTest, TheLastReceiveIsToldOnce) {
  RawStream raw;
  ibv_qp* qp = Attach(&raw);
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_SQD;
  ASSERT_EQ(ModifyQp(qp, &attr, IBV_QP_STATE), 0);
  raw.Finish();
  Poll();

  EXPECT_EQ(Events(), std::vector{IBV_EVENT_QP_LAST_WQE_REACHED});
  EXPECT_EQ(DestroyQp(qp), 0);
}

}  // namespace
}  // namespace sluice::iwarp
