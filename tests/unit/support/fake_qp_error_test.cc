// Queue pairs in trouble: wrong keys, flushes, missing receives.
#include <gtest/gtest.h>

#include "tests/unit/support/fake_pair.h"

namespace sluice {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::SizeIs;

std::vector<FakeDeviceOptions> Iwarp() { return {FakeDeviceOptions::Siw()}; }

class FakeQpError : public testing::Test {
 protected:
  int PostBad(FakeNode* node, ibv_wr_opcode opcode, uint64_t remote_address,
              uint32_t rkey) {
    ibv_sge sge = node->Sge(0, 64);
    ibv_send_wr wr = {};
    wr.wr_id = 1;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.wr.rdma.remote_addr = remote_address;
    wr.wr.rdma.rkey = rkey;
    return node->Post(wr);  // unsignalled: an error completes all the same
  }

  void ExpectBothDead() {
    EXPECT_EQ(fabric_.qp_state(active_.id->qp), IBV_QPS_ERR);
    EXPECT_EQ(fabric_.qp_state(passive_.id->qp), IBV_QPS_ERR);
  }

  FakeFabric fabric_;
  FakePair pair_{&fabric_};
  FakeNode& active_ = pair_.active;
  FakeNode& passive_ = pair_.passive;
};

TEST_F(FakeQpError, RemoteAccessIsChecked) {
  passive_.PostRecv(7);

  PostBad(&active_, IBV_WR_RDMA_WRITE, passive_.Address(0),
          passive_.mr->rkey + 1);

  const auto completions = Poll(active_.send_cq);
  ASSERT_THAT(Statuses(completions), ElementsAre(IBV_WC_REM_ACCESS_ERR));
  EXPECT_NE(completions[0].opcode, IBV_WC_RDMA_WRITE);  // not to be trusted
  ExpectBothDead();
  EXPECT_THAT(Statuses(Poll(passive_.recv_cq)),
              ElementsAre(IBV_WC_WR_FLUSH_ERR));
}

TEST_F(FakeQpError, LocalKeyIsNoRemoteKey) {
  PostBad(&active_, IBV_WR_RDMA_READ, passive_.Address(0), passive_.mr->lkey);
  EXPECT_THAT(Statuses(Poll(active_.send_cq)),
              ElementsAre(IBV_WC_REM_ACCESS_ERR));
}

TEST_F(FakeQpError, RemoteBoundsAreChecked) {
  const uint64_t end = passive_.Address(0) + passive_.buffer.size();
  PostBad(&active_, IBV_WR_RDMA_WRITE, end - 63, passive_.mr->rkey);
  EXPECT_THAT(Statuses(Poll(active_.send_cq)),
              ElementsAre(IBV_WC_REM_ACCESS_ERR));
}

TEST_F(FakeQpError, RemoteRightsAreChecked) {
  ibv_mr* readable =
      pair_.api.reg_mr(passive_.pd, passive_.buffer.data(), 64,
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  PostBad(&active_, IBV_WR_RDMA_READ, passive_.Address(0), readable->rkey);
  EXPECT_EQ(fabric_.qp_state(active_.id->qp), IBV_QPS_RTS);

  PostBad(&active_, IBV_WR_RDMA_WRITE, passive_.Address(0), readable->rkey);

  EXPECT_THAT(Statuses(Poll(active_.send_cq)),
              ElementsAre(IBV_WC_REM_ACCESS_ERR));
  pair_.api.dereg_mr(readable);
}

TEST_F(FakeQpError, RegionOfAnotherPdIsRefused) {
  PostBad(&active_, IBV_WR_RDMA_WRITE, active_.Address(0), active_.mr->rkey);
  EXPECT_THAT(Statuses(Poll(active_.send_cq)),
              ElementsAre(IBV_WC_REM_ACCESS_ERR));
}

TEST_F(FakeQpError, LocalKeyAndBoundsAreChecked) {
  ibv_sge sge = active_.Sge(65500, 64);
  ibv_send_wr wr = {};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  passive_.PostRecv(1);

  active_.Post(wr);

  EXPECT_THAT(Statuses(Poll(active_.send_cq)),
              ElementsAre(IBV_WC_LOC_PROT_ERR));
  EXPECT_EQ(fabric_.qp_state(active_.id->qp), IBV_QPS_ERR);
  EXPECT_EQ(fabric_.qp_state(passive_.id->qp), IBV_QPS_RTS);  // knows nothing
}

TEST_F(FakeQpError, ReadSinkMustBeWritable) {
  ibv_mr* constant = pair_.api.reg_mr(active_.pd, active_.buffer.data(), 64, 0);
  ibv_sge sge = active_.Sge(0, 64);
  sge.lkey = constant->lkey;
  ibv_send_wr wr = {};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_READ;
  wr.wr.rdma.remote_addr = passive_.Address(0);
  wr.wr.rdma.rkey = passive_.mr->rkey;

  active_.Post(wr);

  EXPECT_THAT(Statuses(Poll(active_.send_cq)),
              ElementsAre(IBV_WC_LOC_PROT_ERR));
  pair_.api.dereg_mr(constant);
}

TEST_F(FakeQpError, TooSmallAReceiveKillsBoth) {
  passive_.PostRecv(3, 0, 63);

  active_.PostSend(4);

  EXPECT_THAT(Statuses(Poll(passive_.recv_cq)),
              ElementsAre(IBV_WC_LOC_LEN_ERR));
  EXPECT_THAT(Statuses(Poll(active_.send_cq)),
              ElementsAre(IBV_WC_REM_INV_REQ_ERR));
  ExpectBothDead();
}

TEST_F(FakeQpError, BadReceiveKeyKillsBoth) {
  ibv_sge sge = {.addr = passive_.Address(0), .length = 64, .lkey = 1};
  ibv_recv_wr wr = {.wr_id = 3, .next = nullptr, .sg_list = &sge, .num_sge = 1};
  ibv_recv_wr* bad_wr = nullptr;
  ASSERT_EQ(ibv_post_recv(passive_.id->qp, &wr, &bad_wr), 0);

  active_.PostSend(4);

  EXPECT_THAT(Statuses(Poll(passive_.recv_cq)),
              ElementsAre(IBV_WC_LOC_PROT_ERR));
  EXPECT_THAT(Statuses(Poll(active_.send_cq)), ElementsAre(IBV_WC_REM_OP_ERR));
}

TEST_F(FakeQpError, EveryPostedRequestIsFlushedOnce) {
  for (uint64_t i = 0; i < 5; ++i) active_.PostRecv(100 + i);
  active_.PostRdma(0, IBV_WR_RDMA_WRITE, passive_, 0);  // done, unsignalled
  active_.PostSend(1);                                  // no receive there
  active_.PostSend(2, IBV_WR_SEND, 0);
  active_.PostRdma(3, IBV_WR_RDMA_WRITE, passive_, 0);

  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(pair_.api.modify_qp(active_.id->qp, &attr, IBV_QP_STATE), 0);

  const auto sends = Poll(active_.send_cq);
  EXPECT_THAT(WrIds(sends), ElementsAre(1, 2, 3));
  EXPECT_THAT(Statuses(sends), Each(IBV_WC_WR_FLUSH_ERR));
  EXPECT_THAT(WrIds(Poll(active_.recv_cq)),
              ElementsAre(100, 101, 102, 103, 104));
  // Later posts too; and all of the send queue is free again.
  for (uint64_t i = 0; i < 16; ++i) EXPECT_EQ(active_.PostSend(i), 0);
  EXPECT_EQ(active_.PostSend(16), ENOMEM);
  EXPECT_EQ(active_.PostRecv(9), 0);
  EXPECT_THAT(Statuses(Poll(active_.send_cq)), SizeIs(16));
  EXPECT_THAT(WrIds(Poll(active_.recv_cq)), ElementsAre(9));
}

TEST_F(FakeQpError, DeadPeerDoesNotAnswer) {
  active_.PostSend(1);  // waits for a receive
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_ERR;
  pair_.api.modify_qp(passive_.id->qp, &attr, IBV_QP_STATE);

  EXPECT_THAT(Statuses(Poll(active_.send_cq)),
              ElementsAre(IBV_WC_RETRY_EXC_ERR));
  EXPECT_EQ(fabric_.qp_state(active_.id->qp), IBV_QPS_ERR);
}

TEST_F(FakeQpError, DestroyedPeerDoesNotAnswer) {
  active_.PostSend(1);

  pair_.api.destroy_qp(passive_.id);

  EXPECT_THAT(Statuses(Poll(active_.send_cq)),
              ElementsAre(IBV_WC_RETRY_EXC_ERR));
}

TEST_F(FakeQpError, FiniteRnrRetriesRunOut) {
  FakePair pair(&fabric_, {.rnr_retry = 6});

  pair.active.PostSend(1);

  EXPECT_THAT(Statuses(Poll(pair.active.send_cq)),
              ElementsAre(IBV_WC_RNR_RETRY_EXC_ERR));
}

TEST_F(FakeQpError, MoreReadsThanThePeerAnswersAreRefused) {
  fabric_.faults().HoldSends();
  ibv_qp_attr attr = {};
  attr.max_rd_atomic = 5;
  pair_.api.modify_qp(active_.id->qp, &attr, IBV_QP_MAX_QP_RD_ATOMIC);
  for (uint64_t i = 0; i < 5; ++i) {
    active_.PostRdma(i, IBV_WR_RDMA_READ, passive_);
  }

  fabric_.faults().ReleaseSends();

  const auto completions = Poll(active_.send_cq);
  ASSERT_THAT(completions, SizeIs(5));
  EXPECT_EQ(completions[3].status, IBV_WC_SUCCESS);
  EXPECT_EQ(completions[4].status, IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(FakeQpError, WithoutReadDepthReadsFail) {
  FakePair pair(&fabric_, {.read_depth = 0});
  pair.active.PostRdma(1, IBV_WR_RDMA_READ, pair.passive);
  EXPECT_THAT(Statuses(Poll(pair.active.send_cq)),
              ElementsAre(IBV_WC_LOC_QP_OP_ERR));
}

TEST(FakeIwarpQp, MissingReceiveBreaksTheConnection) {
  FakeFabric fabric(Iwarp());
  FakePair pair(&fabric);
  pair.active.PostRecv(8);

  pair.active.PostSend(1);

  EXPECT_THAT(Statuses(Poll(pair.active.send_cq)),
              ElementsAre(IBV_WC_SUCCESS));  // TCP took it
  EXPECT_THAT(Statuses(Poll(pair.active.recv_cq)),
              ElementsAre(IBV_WC_WR_FLUSH_ERR));
  TakeEvent(pair.api, pair.active_events, RDMA_CM_EVENT_DISCONNECTED);
  TakeEvent(pair.api, pair.passive_events, RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(fabric.qp_state(pair.passive.id->qp), IBV_QPS_ERR);
}

TEST(FakeIwarpQp, BadWriteBreaksTheConnectionBadReadIsTold) {
  FakeFabric fabric(Iwarp());
  for (ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    FakePair pair(&fabric);
    ibv_sge sge = pair.active.Sge(0, 32);
    ibv_send_wr wr = {};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.rkey = 1;

    pair.active.Post(wr);

    const bool is_read = opcode == IBV_WR_RDMA_READ;
    EXPECT_THAT(Statuses(Poll(pair.active.send_cq)),
                ElementsAre(is_read ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS));
    TakeEvent(pair.api, pair.active_events, RDMA_CM_EVENT_DISCONNECTED);
  }
}

TEST(FakeIwarpQp, ErrorStateDisconnects) {
  FakeFabric fabric(Iwarp());
  FakePair pair(&fabric);
  pair.passive.PostRecv(1);

  pair.api.destroy_qp(pair.active.id);

  EXPECT_THAT(Statuses(Poll(pair.passive.recv_cq)),
              ElementsAre(IBV_WC_WR_FLUSH_ERR));
  TakeEvent(pair.api, pair.passive_events, RDMA_CM_EVENT_DISCONNECTED);
}

TEST(FakeIwarpQp, HardwareWantsRemoteWriteOnReadSinks) {
  FakeDeviceOptions options = FakeDeviceOptions::Siw();
  options.read_sink_needs_remote_write = true;
  FakeFabric fabric({options});
  FakePair pair(&fabric);
  pair.active.PostRdma(1, IBV_WR_RDMA_READ, pair.passive);
  EXPECT_THAT(Statuses(Poll(pair.active.send_cq)), ElementsAre(IBV_WC_SUCCESS));
  ibv_mr* local = pair.api.reg_mr(pair.active.pd, pair.active.buffer.data(), 64,
                                  IBV_ACCESS_LOCAL_WRITE);
  ibv_mr* saved = pair.active.mr;
  pair.active.mr = local;

  pair.active.PostRdma(2, IBV_WR_RDMA_READ, pair.passive);

  EXPECT_THAT(Statuses(Poll(pair.active.send_cq)),
              ElementsAre(IBV_WC_LOC_PROT_ERR));
  pair.active.mr = saved;
  pair.api.dereg_mr(local);
}

}  // namespace
}  // namespace sluice
