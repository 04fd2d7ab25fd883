// Queue pairs: data, depth, order.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/support/fake_pair.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class FakeQp : public testing::Test {
 protected:
  FakeFabric fabric_;
  FakePair pair_{&fabric_};
  FakeNode& active_ = pair_.active;
  FakeNode& passive_ = pair_.passive;
};

TEST_F(FakeQp, SendsIntoAReceive) {
  std::strcpy(active_.buffer.data(), "hello");
  ASSERT_EQ(passive_.PostRecv(5, 1000), 0);

  ASSERT_EQ(active_.PostSend(6, IBV_WR_SEND, IBV_SEND_SIGNALED, 0, 6), 0);

  EXPECT_STREQ(passive_.buffer.data() + 1000, "hello");
  const auto received = Poll(passive_.recv_cq);
  ASSERT_THAT(received, SizeIs(1));
  EXPECT_EQ(received[0].wr_id, 5u);
  EXPECT_EQ(received[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(received[0].opcode, IBV_WC_RECV);
  EXPECT_EQ(received[0].byte_len, 6u);
  EXPECT_EQ(received[0].qp_num, passive_.id->qp->qp_num);
  EXPECT_EQ(received[0].src_qp, active_.id->qp->qp_num);
  EXPECT_EQ(received[0].wc_flags, 0u);
  const auto sent = Poll(active_.send_cq);
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].wr_id, 6u);
  EXPECT_EQ(sent[0].opcode, IBV_WC_SEND);
  EXPECT_EQ(sent[0].qp_num, active_.id->qp->qp_num);
}

TEST_F(FakeQp, CarriesImmediateAndInvalidate) {
  passive_.PostRecv(1);
  passive_.PostRecv(2);
  ibv_send_wr wr = {};
  wr.opcode = IBV_WR_SEND_WITH_INV;
  wr.invalidate_rkey = 0x1234;
  EXPECT_EQ(active_.Post(wr), 0);
  wr.opcode = IBV_WR_SEND_WITH_IMM;
  wr.imm_data = 0x5678;
  EXPECT_EQ(active_.Post(wr), 0);

  const auto received = Poll(passive_.recv_cq);

  ASSERT_THAT(received, SizeIs(2));
  EXPECT_EQ(received[0].wc_flags, unsigned{IBV_WC_WITH_INV});
  EXPECT_EQ(received[0].invalidated_rkey, 0x1234u);
  EXPECT_EQ(received[0].byte_len, 0u);
  EXPECT_EQ(received[1].wc_flags, unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(received[1].imm_data, 0x5678u);
}

TEST_F(FakeQp, InlineNeedsNoRegisteredMemory) {
  char text[] = "on the stack";
  ibv_sge sge = {.addr = reinterpret_cast<uint64_t>(text),
                 .length = sizeof(text),
                 .lkey = 0};
  ibv_send_wr wr = {};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_INLINE;
  passive_.PostRecv(1);

  EXPECT_EQ(active_.Post(wr), 0);

  EXPECT_STREQ(passive_.buffer.data(), text);
  EXPECT_EQ(active_.PostSend(1, IBV_WR_SEND, IBV_SEND_INLINE, 0, 129), EINVAL);
}

TEST_F(FakeQp, WritesAndReads) {
  std::strcpy(active_.buffer.data(), "written");
  std::strcpy(passive_.buffer.data() + 512, "read");

  EXPECT_EQ(active_.PostRdma(1, IBV_WR_RDMA_WRITE, passive_), 0);
  EXPECT_EQ(active_.PostRdma(2, IBV_WR_RDMA_READ, passive_, IBV_SEND_SIGNALED,
                             512, 16),
            0);

  EXPECT_STREQ(passive_.buffer.data(), "written");
  EXPECT_STREQ(active_.buffer.data() + 512, "read");
  const auto completions = Poll(active_.send_cq);
  ASSERT_THAT(WrIds(completions), ElementsAre(1, 2));
  EXPECT_EQ(completions[0].opcode, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(completions[1].opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(completions[1].byte_len, 16u);
  EXPECT_THAT(Poll(passive_.recv_cq), IsEmpty());
}

TEST_F(FakeQp, ScattersAndGathers) {
  std::memcpy(active_.buffer.data(), "abcd", 4);
  std::memcpy(active_.buffer.data() + 100, "efgh", 4);
  ibv_sge into[] = {passive_.Sge(0, 3), passive_.Sge(50, 20)};
  ibv_recv_wr recv = {
      .wr_id = 1, .next = nullptr, .sg_list = into, .num_sge = 2};
  ibv_recv_wr* bad_recv = nullptr;
  ASSERT_EQ(ibv_post_recv(passive_.id->qp, &recv, &bad_recv), 0);
  ibv_sge from[] = {active_.Sge(0, 4), active_.Sge(100, 4)};
  ibv_send_wr wr = {};
  wr.sg_list = from;
  wr.num_sge = 2;
  wr.opcode = IBV_WR_SEND;

  EXPECT_EQ(active_.Post(wr), 0);

  EXPECT_EQ(std::memcmp(passive_.buffer.data(), "abc", 3), 0);
  EXPECT_EQ(std::memcmp(passive_.buffer.data() + 50, "defgh", 5), 0);
}

TEST_F(FakeQp, SendQueueIsFreedByPollingNotByCompleting) {
  for (uint64_t i = 0; i < 16; ++i) {
    ASSERT_EQ(active_.PostRdma(i, IBV_WR_RDMA_WRITE, passive_), 0);
  }
  EXPECT_EQ(active_.PostRdma(16, IBV_WR_RDMA_WRITE, passive_), ENOMEM);

  ibv_wc wc = {};
  ASSERT_EQ(ibv_poll_cq(active_.send_cq, 1, &wc), 1);

  EXPECT_EQ(active_.PostRdma(16, IBV_WR_RDMA_WRITE, passive_), 0);
  EXPECT_EQ(active_.PostRdma(17, IBV_WR_RDMA_WRITE, passive_), ENOMEM);
}

TEST_F(FakeQp, SignalledCompletionFreesUnsignalledBeforeIt) {
  for (uint64_t i = 0; i < 15; ++i) {
    ASSERT_EQ(active_.PostRdma(i, IBV_WR_RDMA_WRITE, passive_, 0), 0);
  }
  EXPECT_THAT(Poll(active_.send_cq), IsEmpty());
  ASSERT_EQ(active_.PostRdma(15, IBV_WR_RDMA_WRITE, passive_), 0);
  EXPECT_EQ(active_.PostRdma(16, IBV_WR_RDMA_WRITE, passive_), ENOMEM);

  EXPECT_THAT(WrIds(Poll(active_.send_cq)), ElementsAre(15));

  for (uint64_t i = 0; i < 16; ++i) {
    EXPECT_EQ(active_.PostRdma(i, IBV_WR_RDMA_WRITE, passive_, 0), 0);
  }
}

TEST_F(FakeQp, BadWrIsTheFirstNotPosted) {
  ibv_send_wr chain[20] = {};
  for (size_t i = 0; i < 20; ++i) {
    chain[i].opcode = IBV_WR_RDMA_WRITE;
    chain[i].next = i == 19 ? nullptr : &chain[i + 1];
  }
  ibv_send_wr* bad_wr = nullptr;

  EXPECT_EQ(ibv_post_send(active_.id->qp, chain, &bad_wr), ENOMEM);

  EXPECT_EQ(bad_wr, &chain[16]);
}

TEST_F(FakeQp, ReceiveQueueHasADepth) {
  for (uint64_t i = 0; i < 16; ++i) ASSERT_EQ(passive_.PostRecv(i), 0);
  EXPECT_EQ(passive_.PostRecv(16), ENOMEM);
  active_.PostSend(1);
  EXPECT_EQ(passive_.PostRecv(16), ENOMEM);  // completed, not polled

  EXPECT_THAT(WrIds(Poll(passive_.recv_cq)), ElementsAre(0));

  EXPECT_EQ(passive_.PostRecv(16), 0);
}

TEST_F(FakeQp, SigAllSignalsEverything) {
  FakePair pair(&fabric_, {.sq_sig_all = true});

  pair.active.PostRdma(1, IBV_WR_RDMA_WRITE, pair.passive, 0);

  EXPECT_THAT(WrIds(Poll(pair.active.send_cq)), ElementsAre(1));
}

TEST_F(FakeQp, SendWaitsForAReceiveAndHoldsUpTheRest) {
  active_.PostSend(1);
  active_.PostRdma(2, IBV_WR_RDMA_WRITE, passive_);
  EXPECT_THAT(Poll(active_.send_cq), IsEmpty());
  EXPECT_EQ(fabric_.rnr_count(), 1u);

  passive_.PostRecv(3);

  EXPECT_THAT(WrIds(Poll(active_.send_cq)), ElementsAre(1, 2));
  EXPECT_EQ(fabric_.rnr_count(), 1u);
}

TEST_F(FakeQp, ReadsBeyondTheDepthWaitInTheQueue) {
  fabric_.faults().HoldSends();
  for (uint64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(active_.PostRdma(i, IBV_WR_RDMA_READ, passive_), 0);
  }
  EXPECT_EQ(fabric_.qp_reads_max(active_.id->qp), 4u);

  fabric_.faults().ReleaseSends();

  EXPECT_THAT(WrIds(Poll(active_.send_cq)), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(fabric_.qp_reads_max(active_.id->qp), 4u);
}

TEST_F(FakeQp, RefusesMalformedRequests) {
  ibv_sge sges[5] = {};
  ibv_send_wr wr = {};
  wr.sg_list = sges;
  wr.num_sge = 5;
  wr.opcode = IBV_WR_SEND;
  EXPECT_EQ(active_.Post(wr), EINVAL);
  EXPECT_EQ(active_.PostSend(1, IBV_WR_ATOMIC_FETCH_AND_ADD), EINVAL);
  EXPECT_EQ(active_.PostRdma(1, IBV_WR_RDMA_READ, passive_, IBV_SEND_INLINE),
            EINVAL);
}

TEST_F(FakeQp, SiwGivesNegativeErrnoAndOneSgeReads) {
  FakeFabric fabric({FakeDeviceOptions::Siw()});
  FakePair pair(&fabric);
  ibv_sge sges[] = {pair.active.Sge(0, 8), pair.active.Sge(8, 8)};
  ibv_send_wr wr = {};
  wr.sg_list = sges;
  wr.num_sge = 2;
  wr.opcode = IBV_WR_RDMA_READ;

  EXPECT_EQ(pair.active.Post(wr), -EINVAL);

  for (uint64_t i = 0; i < 16; ++i)
    pair.active.PostRdma(i, IBV_WR_RDMA_WRITE, pair.passive);
  EXPECT_EQ(pair.active.PostRdma(16, IBV_WR_RDMA_WRITE, pair.passive), -ENOMEM);
}

TEST_F(FakeQp, WithoutMemoryExtensionsCannotInvalidate) {
  FakeDeviceOptions options;
  options.mem_mgt_extensions = false;
  FakeFabric fabric({options});
  FakePair pair(&fabric);

  EXPECT_EQ(pair.active.PostSend(1, IBV_WR_SEND_WITH_INV), EINVAL);
}

TEST_F(FakeQp, MovesThroughItsStates) {
  FakePair pair(&fabric_, {.connect = false});
  ibv_qp* qp = pair.active.id->qp;
  EXPECT_EQ(fabric_.qp_state(qp), IBV_QPS_INIT);
  EXPECT_EQ(pair.active.PostSend(1), EINVAL);
  EXPECT_EQ(pair.active.PostRecv(1), 0);

  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_RTS;
  EXPECT_EQ(pair.api.modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
  attr.qp_state = IBV_QPS_ERR;
  EXPECT_EQ(pair.api.modify_qp(qp, &attr, IBV_QP_STATE), 0);
  EXPECT_THAT(Statuses(Poll(pair.active.recv_cq)),
              ElementsAre(IBV_WC_WR_FLUSH_ERR));
  attr.qp_state = IBV_QPS_RESET;
  EXPECT_EQ(pair.api.modify_qp(qp, &attr, IBV_QP_STATE), 0);
  EXPECT_EQ(pair.active.PostRecv(1), EINVAL);
}

TEST_F(FakeQp, QueryTellsWhatWasNegotiated) {
  ibv_qp_attr attr = {};
  ibv_qp_init_attr init = {};

  EXPECT_EQ(pair_.api.query_qp(active_.id->qp, &attr, 0, &init), 0);

  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.max_rd_atomic, 4);
  EXPECT_EQ(attr.max_dest_rd_atomic, 4);
  EXPECT_EQ(attr.cap.max_send_wr, 16u);
  EXPECT_EQ(attr.dest_qp_num, passive_.id->qp->qp_num);
  EXPECT_EQ(init.send_cq, active_.send_cq);
}

TEST_F(FakeQp, CompletionsOutliveTheirQueuePair) {
  passive_.PostRecv(9);
  active_.PostSend(1);
  const uint32_t number = passive_.id->qp->qp_num;

  pair_.api.destroy_qp(passive_.id);

  const auto completions = Poll(passive_.recv_cq);
  ASSERT_THAT(completions, SizeIs(1));
  EXPECT_EQ(completions[0].qp_num, number);
}

}  // namespace
}  // namespace sluice
