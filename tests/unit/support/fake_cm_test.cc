// Ids of the connection manager: addresses, listening, migration, lifetime.
#include <gtest/gtest.h>

#include "tests/unit/support/fake_pair.h"

namespace sluice {
namespace {

class FakeCm : public testing::Test {
 protected:
  FakeCm() : channel_(api_.create_event_channel()) {
    SetNonblocking(channel_->fd);
  }
  ~FakeCm() override {
    for (rdma_cm_id* id : ids_) EXPECT_EQ(api_.destroy_id(id), 0);
    api_.destroy_event_channel(channel_);
  }

  rdma_cm_id* MakeId() {
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(api_.create_id(channel_, &id, this, RDMA_PS_TCP), 0);
    ids_.push_back(id);
    return id;
  }

  // 0 or the errno.
  template <typename Address>
  int Bind(rdma_cm_id* id, Address address) {
    return api_.bind_addr(id, Raw(address)) == 0 ? 0 : errno;
  }
  template <typename Address>
  int Resolve(rdma_cm_id* id, Address address) {
    return api_.resolve_addr(id, nullptr, Raw(address), 1000) == 0 ? 0 : errno;
  }

  FakeFabric fabric_{{FakeDeviceOptions{}, FakeDeviceOptions{}}};
  const VerbsApi& api_ = fabric_.api();
  rdma_event_channel* channel_;
  std::vector<rdma_cm_id*> ids_;
};

TEST_F(FakeCm, BindingFindsTheDevice) {
  rdma_cm_id* loopback = MakeId();
  rdma_cm_id* other = MakeId();
  rdma_cm_id* v6 = MakeId();
  rdma_cm_id* any = MakeId();

  EXPECT_EQ(Bind(loopback, V4("127.1.2.3", 4420)), 0);
  EXPECT_EQ(Bind(other, V4("192.168.1.9", 4420)), 0);
  EXPECT_EQ(Bind(v6, V6("::1", 4420)), 0);
  EXPECT_EQ(Bind(any, V4("0.0.0.0", 4421)), 0);

  EXPECT_EQ(loopback->verbs, fabric_.context("fake0"));
  EXPECT_EQ(loopback->port_num, 1);
  EXPECT_EQ(other->verbs, fabric_.context("fake1"));
  EXPECT_EQ(v6->verbs, fabric_.context("fake0"));
  EXPECT_EQ(any->verbs, nullptr);
  EXPECT_EQ(rdma_get_local_addr(v6)->sa_family, AF_INET6);
}

TEST_F(FakeCm, RefusesStrangeAddresses) {
  EXPECT_EQ(Bind(MakeId(), V4("8.8.8.8", 1)), EADDRNOTAVAIL);
  fabric_.faults().RemoveDevice("fake1");
  EXPECT_EQ(Bind(MakeId(), V4("192.168.1.1", 1)), ENODEV);
  sockaddr unknown = {};
  EXPECT_EQ(api_.bind_addr(MakeId(), &unknown), -1);
  EXPECT_EQ(errno, EAFNOSUPPORT);
}

TEST_F(FakeCm, PortsAreTakenOnce) {
  EXPECT_EQ(Bind(MakeId(), V4("127.0.0.1", 4420)), 0);

  EXPECT_EQ(Bind(MakeId(), V4("127.0.0.1", 4420)), EADDRINUSE);
  EXPECT_EQ(Bind(MakeId(), V4("0.0.0.0", 4420)), EADDRINUSE);
  EXPECT_EQ(Bind(MakeId(), V6("::", 4420)), EADDRINUSE);
  EXPECT_EQ(Bind(MakeId(), V4("127.0.0.2", 4420)), 0);
  rdma_cm_id* v6_only = MakeId();
  int one = 1;
  EXPECT_EQ(api_.set_option(v6_only, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY,
                            &one, sizeof(one)),
            0);
  EXPECT_EQ(Bind(v6_only, V6("::", 4420)), 0);
}

TEST_F(FakeCm, ReusedPortsHaveOneListener) {
  rdma_cm_id* ids[] = {MakeId(), MakeId()};
  int one = 1;
  for (rdma_cm_id* id : ids) {
    ASSERT_EQ(api_.set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR,
                              &one, sizeof(one)),
              0);
    EXPECT_EQ(Bind(id, V4("127.0.0.1", 4420)), 0);
  }
  EXPECT_EQ(api_.listen(ids[0], 0), -1);
  EXPECT_EQ(errno, EADDRINUSE);
}

TEST_F(FakeCm, PortZeroPicksOne) {
  rdma_cm_id* a = MakeId();
  rdma_cm_id* b = MakeId();
  EXPECT_EQ(api_.get_src_port(a), 0);

  Bind(a, V4("127.0.0.1", 0));
  Bind(b, V4("127.0.0.1", 0));

  EXPECT_NE(api_.get_src_port(a), 0);
  EXPECT_NE(api_.get_src_port(a), api_.get_src_port(b));
}

TEST_F(FakeCm, ResolvesInTwoSteps) {
  rdma_cm_id* id = MakeId();
  EXPECT_EQ(api_.resolve_route(id, 1000), -1);

  EXPECT_EQ(Resolve(id, V4("127.0.0.1", 4420)), 0);
  const rdma_cm_event resolved =
      TakeEvent(api_, channel_, RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(api_.resolve_route(id, 1000), 0);
  TakeEvent(api_, channel_, RDMA_CM_EVENT_ROUTE_RESOLVED);

  EXPECT_EQ(resolved.id, id);
  EXPECT_EQ(resolved.id->context, this);
  EXPECT_EQ(id->verbs, fabric_.context("fake0"));
  EXPECT_NE(api_.get_src_port(id), 0);
}

TEST_F(FakeCm, UnknownDestinationIsAnEvent) {
  EXPECT_EQ(Resolve(MakeId(), V4("8.8.8.8", 4420)), 0);
  EXPECT_EQ(TakeEvent(api_, channel_, RDMA_CM_EVENT_ADDR_ERROR).status,
            -EHOSTUNREACH);
}

TEST_F(FakeCm, ChannelIsEmptyUntilAnEvent) {
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(api_.get_cm_event(channel_, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_FALSE(IsReadable(channel_->fd));

  Resolve(MakeId(), V4("127.0.0.1", 1));

  EXPECT_TRUE(IsReadable(channel_->fd));
  TakeEvent(api_, channel_, RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_FALSE(IsReadable(channel_->fd));
}

TEST_F(FakeCm, MigrationMovesPendingEvents) {
  rdma_cm_id* id = MakeId();
  rdma_cm_id* stays = MakeId();
  Resolve(id, V4("127.0.0.1", 1));
  Resolve(stays, V4("127.0.0.1", 1));
  rdma_event_channel* other = api_.create_event_channel();

  EXPECT_EQ(api_.migrate_id(id, other), 0);

  EXPECT_EQ(id->channel, other);
  EXPECT_EQ(TakeEvent(api_, other, RDMA_CM_EVENT_ADDR_RESOLVED).id, id);
  EXPECT_EQ(TakeEvent(api_, channel_, RDMA_CM_EVENT_ADDR_RESOLVED).id, stays);
  EXPECT_EQ(api_.migrate_id(id, channel_), 0);
  api_.destroy_event_channel(other);
}

TEST_F(FakeCm, DestroyingDropsEventsNotFetched) {
  rdma_cm_id* id = MakeId();
  Resolve(id, V4("127.0.0.1", 1));

  EXPECT_EQ(api_.destroy_id(id), 0);
  ids_.clear();

  EXPECT_FALSE(IsReadable(channel_->fd));
}

using FakeCmDeathTest = FakeCm;

TEST_F(FakeCmDeathTest, UnacknowledgedEventsWouldHang) {
  rdma_cm_id* id = MakeId();
  Resolve(id, V4("127.0.0.1", 1));
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(api_.get_cm_event(channel_, &event), 0);

  EXPECT_DEATH(api_.destroy_id(id), "unacked_events == 0");
  EXPECT_DEATH(api_.migrate_id(id, channel_), "unacked_events == 0");

  api_.ack_cm_event(event);
}

TEST_F(FakeCmDeathTest, ChannelOutlivesItsIds) {
  MakeId();
  EXPECT_DEATH(api_.destroy_event_channel(channel_), "channel");
}

}  // namespace
}  // namespace sluice
