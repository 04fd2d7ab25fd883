// What a device says of itself, and objects that are in use.
#include <gtest/gtest.h>

#include <string>

#include "tests/verbs/pair.h"

namespace sluice::verbs {
namespace {

class DeviceQuery : public Verbs {};

TEST_F(DeviceQuery, IsListedAndOpen) {
  int count = 0;
  ibv_device** list = Api().get_device_list(&count);
  ASSERT_NE(list, nullptr);
  bool listed = false;
  for (int i = 0; i < count; ++i) {
    listed |= Device().name == Api().get_device_name(list[i]);
  }
  EXPECT_TRUE(listed);
  EXPECT_EQ(list[count], nullptr);
  Api().free_device_list(list);

  ibv_context** contexts = Api().get_devices(&count);
  ASSERT_NE(contexts, nullptr);
  bool open = false;
  for (int i = 0; i < count; ++i) open |= contexts[i] == Device().context;
  EXPECT_TRUE(open);
  Api().free_devices(contexts);
}

TEST_F(DeviceQuery, LimitsAreUsable) {
  const ibv_device_attr& attr = Device().attr;
  EXPECT_GE(attr.max_qp, 1024);
  EXPECT_GE(attr.max_qp_wr, 128);
  EXPECT_GE(attr.max_sge, 2);
  EXPECT_GE(attr.max_cq, 1024);
  EXPECT_GE(attr.max_cqe, 1024);
  EXPECT_GE(attr.max_mr, 1024);
  EXPECT_GE(attr.max_pd, 1024);
  EXPECT_GE(attr.max_qp_rd_atom, 1);
  EXPECT_GE(attr.max_qp_init_rd_atom, 1);
  EXPECT_GE(attr.max_mr_size, uint64_t{1} << 30);
  EXPECT_EQ(attr.phys_port_cnt, 1);
  if (Device().is_iwarp()) {
    EXPECT_EQ(attr.max_sge_rd, 1);
    EXPECT_EQ(Device().context->device->node_type, IBV_NODE_RNIC);
  }
  EXPECT_GE(Device().context->num_comp_vectors, 1);
}

TEST_F(DeviceQuery, PortIsUp) {
  ibv_port_attr attr = {};
  ASSERT_EQ(Api().query_port(Device().context, 1, &attr), 0);
  EXPECT_EQ(attr.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_GE(attr.max_msg_sz, 1U << 23);
  EXPECT_GE(attr.max_mtu, attr.active_mtu);
  EXPECT_GE(attr.gid_tbl_len, 1);
  EXPECT_NE(Api().query_port(Device().context, 2, &attr), 0);
}

TEST_F(DeviceQuery, TooMuchIsRefused) {
  ibv_context* context = Device().context;
  EXPECT_EQ(Api().create_cq(context, 0, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(
      Api().create_cq(context, Device().attr.max_cqe + 1, nullptr, nullptr, 0),
      nullptr);
}

TEST_F(DeviceQuery, CqIsAsDeepAsWanted) {
  for (const int depth : {1, 2, 100, 1000}) {
    ibv_cq* cq = Api().create_cq(Device().context, depth, nullptr, nullptr, 0);
    ASSERT_NE(cq, nullptr);
    EXPECT_GE(cq->cqe, depth);
    EXPECT_EQ(Api().destroy_cq(cq), 0);
  }
}

TEST_F(DeviceQuery, RemoteWriteWantsLocalWrite) {
  ibv_pd* pd = Api().alloc_pd(Device().context);
  ASSERT_NE(pd, nullptr);
  std::vector<std::byte> bytes(4096);
  ibv_mr* mr =
      Api().reg_mr(pd, bytes.data(), bytes.size(), IBV_ACCESS_REMOTE_WRITE);
  const std::string answer = mr == nullptr ? ErrnoName(errno) : "a region";
  if (mr != nullptr) Api().dereg_mr(mr);
  Check("write", answer, {"EINVAL"});
  EXPECT_EQ(Api().dealloc_pd(pd), 0);
}

class InUse : public Verbs {};

TEST_F(InUse, PdWithARegion) {
  ibv_pd* pd = Api().alloc_pd(Device().context);
  ASSERT_NE(pd, nullptr);
  {
    Region region(pd, 4096);
    EXPECT_EQ(ErrnoName(Api().dealloc_pd(pd)), "EBUSY");
  }
  EXPECT_EQ(Api().dealloc_pd(pd), 0);
}

TEST_F(InUse, PdCqAndChannelWithAQueuePair) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.active.get();
  EXPECT_EQ(ErrnoName(Api().dealloc_pd(end->pd)), "EBUSY");
  EXPECT_EQ(ErrnoName(Api().destroy_comp_channel(end->send_channel)), "EBUSY");
  if (!Spared("CQs")) {
    EXPECT_EQ(ErrnoName(Api().destroy_cq(end->send_cq)), "EBUSY");
    EXPECT_EQ(ErrnoName(Api().destroy_cq(end->recv_cq)), "EBUSY");
  }
  EXPECT_TRUE(pair.Greet());
}

TEST_F(InUse, SecondQueuePairOfAnId) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  ibv_qp_init_attr attr = {};
  attr.send_cq = pair.active->send_cq;
  attr.recv_cq = pair.active->recv_cq;
  attr.qp_type = IBV_QPT_RC;
  attr.cap = {4, 4, 1, 1, 0};
  EXPECT_EQ(Api().create_qp(pair.active->id, pair.active->pd, &attr), -1);
  EXPECT_EQ(ErrnoName(errno), "EINVAL");
}

// Without CQs and PD a queue pair gets its own, which go with it.
TEST_F(InUse, QueuePairMakesWhatItMisses) {
  CmEvents events;
  Listener listener(&events);
  for (int round = 0; round < 3; ++round) {
    rdma_cm_id* id = Dial(&events, listener.port);
    ASSERT_NE(id, nullptr);
    ibv_qp_init_attr attr = {};
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {4, 4, 1, 1, 0};
    ASSERT_EQ(Api().create_qp(id, nullptr, &attr), 0);
    EXPECT_NE(id->pd, nullptr);
    ASSERT_NE(id->send_cq, nullptr);
    ASSERT_NE(id->recv_cq, nullptr);
    EXPECT_NE(id->send_cq_channel, nullptr);
    EXPECT_NE(id->recv_cq_channel, nullptr);
    EXPECT_EQ(id->qp->send_cq, id->send_cq);
    EXPECT_EQ(id->qp->recv_cq, id->recv_cq);
    EXPECT_EQ(id->send_cq->cq_context, id);
    EXPECT_EQ(id->send_cq->channel, id->send_cq_channel);
    Api().destroy_qp(id);
    EXPECT_EQ(id->qp, nullptr);
    EXPECT_EQ(Api().destroy_id(id), 0);
  }
}

TEST_F(InUse, OtherKindsOfQueuePairs) {
  if (!Device().is_iwarp()) GTEST_SKIP() << "others have more of them";
  PairOptions options;
  options.connect = false;
  Pair pair(options);
  ASSERT_TRUE(pair.ok());
  pair.active->DestroyQp();
  for (const ibv_qp_type type : {IBV_QPT_UC, IBV_QPT_UD}) {
    ibv_qp_init_attr attr = {};
    attr.send_cq = pair.active->send_cq;
    attr.recv_cq = pair.active->recv_cq;
    attr.qp_type = type;
    attr.cap = {4, 4, 1, 1, 0};
    EXPECT_EQ(Api().create_qp(pair.active->id, pair.active->pd, &attr), -1);
    Check("create", ErrnoName(errno), {"EINVAL", "EOPNOTSUPP"});
  }
}

TEST_F(InUse, QueuesDeeperThanTheDevices) {
  PairOptions options;
  options.connect = false;
  Pair pair(options);
  ASSERT_TRUE(pair.ok());
  pair.active->DestroyQp();
  const auto too_many = static_cast<uint32_t>(Device().attr.max_qp_wr) + 1;
  const auto too_wide = static_cast<uint32_t>(Device().attr.max_sge) + 1;
  const ibv_qp_cap caps[] = {{too_many, 4, 1, 1, 0},
                             {4, too_many, 1, 1, 0},
                             {4, 4, too_wide, 1, 0},
                             {4, 4, 1, too_wide, 0},
                             {4, 4, 1, 1, 1 << 20}};
  for (const ibv_qp_cap& cap : caps) {
    ibv_qp_init_attr attr = {};
    attr.send_cq = pair.active->send_cq;
    attr.recv_cq = pair.active->recv_cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = cap;
    EXPECT_EQ(Api().create_qp(pair.active->id, pair.active->pd, &attr), -1);
    Check("create", ErrnoName(errno), {"EINVAL", "ENOMEM"});
  }
}

// What was granted is at least what was asked for, and query_qp says the same.
TEST_F(InUse, CapabilitiesAreAtLeastWhatWasAsked) {
  PairOptions options;
  options.Both([](EndpointOptions* end) {
    end->send_wr = 37;
    end->recv_wr = 21;
    end->sge = 3;
    end->inline_bytes = 40;
  });
  Pair pair(options);
  ASSERT_TRUE(pair.ok());
  const ibv_qp_cap& cap = pair.active->cap;
  EXPECT_GE(cap.max_send_wr, 37U);
  EXPECT_GE(cap.max_recv_wr, 21U);
  EXPECT_GE(cap.max_send_sge, 3U);
  EXPECT_GE(cap.max_recv_sge, 3U);
  EXPECT_GE(cap.max_inline_data, 40U);

  ibv_qp_attr attr = {};
  ibv_qp_init_attr init = {};
  ASSERT_EQ(Api().query_qp(pair.active->qp(), &attr, IBV_QP_CAP, &init), 0);
  EXPECT_GE(attr.cap.max_send_wr, 37U);
  EXPECT_GE(attr.cap.max_recv_wr, 21U);
  EXPECT_EQ(init.send_cq, pair.active->send_cq);
  EXPECT_EQ(init.recv_cq, pair.active->recv_cq);
  EXPECT_EQ(init.srq, nullptr);
  EXPECT_EQ(init.qp_type, IBV_QPT_RC);
}

}  // namespace
}  // namespace sluice::verbs
