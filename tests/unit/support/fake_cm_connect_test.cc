// Connections: requests, private data, rejects, disconnects.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>

#include "tests/unit/support/fake_pair.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// An event that is not acknowledged yet, for its private data.
class HeldEvent {
 public:
  HeldEvent(const VerbsApi& api, rdma_event_channel* channel) : api_(api) {
    SetNonblocking(channel->fd);
    EXPECT_EQ(api_.get_cm_event(channel, &event_), 0);
  }
  ~HeldEvent() { api_.ack_cm_event(event_); }
  HeldEvent(const HeldEvent&) = delete;
  HeldEvent& operator=(const HeldEvent&) = delete;

  const rdma_cm_event* operator->() const { return event_; }
  std::string data() const {
    return {static_cast<const char*>(event_->param.conn.private_data),
            event_->param.conn.private_data_len};
  }

 private:
  const VerbsApi& api_;
  rdma_cm_event* event_ = nullptr;
};

std::string Padded(std::string text, size_t size) {
  text.resize(size);
  return text;
}

// `data` must outlive the call that takes the result.
rdma_conn_param Param(std::string_view data) {
  rdma_conn_param param = {};
  param.private_data = data.data();
  param.private_data_len = static_cast<uint8_t>(data.size());
  param.responder_resources = 16;
  param.initiator_depth = 3;
  param.rnr_retry_count = 7;
  return param;
}

// The active side is resolved and has its queue pair; nothing is connected.
class FakeConnect : public testing::TestWithParam<bool> {
 protected:
  bool iwarp() const { return GetParam(); }

  // Connects with "hello"; the passive id has its queue pair.
  void Request() {
    rdma_conn_param param = Param("hello");
    ASSERT_EQ(api_.connect(pair_.active.id, &param), 0);
    const rdma_cm_event request =
        TakeEvent(api_, pair_.passive_events, RDMA_CM_EVENT_CONNECT_REQUEST);
    pair_.passive.Make(&fabric_, request.id, {});
  }

  void Establish() {
    Request();
    rdma_conn_param param = Param("");
    ASSERT_EQ(api_.accept(pair_.passive.id, &param), 0);
    TakeEvent(api_, pair_.active_events, RDMA_CM_EVENT_ESTABLISHED);
    TakeEvent(api_, pair_.passive_events, RDMA_CM_EVENT_ESTABLISHED);
  }

  FakeFabric fabric_{
      {GetParam() ? FakeDeviceOptions::Siw() : FakeDeviceOptions{}}};
  const VerbsApi& api_ = fabric_.api();
  FakePair pair_{&fabric_, {.connect = false}};
};

INSTANTIATE_TEST_SUITE_P(Transports, FakeConnect, testing::Bool(),
                         [](const auto& param_info) {
                           return param_info.param ? "Iwarp" : "Ib";
                         });

TEST_P(FakeConnect, RequestTellsTheReceiversView) {
  rdma_conn_param param = Param("hello");
  ASSERT_EQ(api_.connect(pair_.active.id, &param), 0);

  const HeldEvent request(api_, pair_.passive_events);

  EXPECT_EQ(request->event, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(request->listen_id, pair_.listener);
  EXPECT_EQ(request->param.conn.responder_resources, 3);
  EXPECT_EQ(request->param.conn.initiator_depth, 16);
  EXPECT_EQ(request->param.conn.qp_num, pair_.active.id->qp->qp_num);
  EXPECT_EQ(request.data(), iwarp() ? "hello" : Padded("hello", 56));
  EXPECT_EQ(request->id->verbs, fabric_.context("fake0"));
  EXPECT_EQ(request->id->channel, pair_.passive_events);
  EXPECT_EQ(
      std::memcmp(rdma_get_peer_addr(request->id),
                  rdma_get_local_addr(pair_.active.id), sizeof(sockaddr_in)),
      0);
  EXPECT_EQ(
      std::memcmp(rdma_get_local_addr(request->id),
                  rdma_get_peer_addr(pair_.active.id), sizeof(sockaddr_in)),
      0);
  EXPECT_EQ(api_.destroy_id(request->id), 0);
}

TEST_P(FakeConnect, AcceptEstablishesBothSides) {
  Request();
  rdma_conn_param param = Param("welcome");
  param.responder_resources = 2;
  param.initiator_depth = 8;

  ASSERT_EQ(api_.accept(pair_.passive.id, &param), 0);

  const HeldEvent active(api_, pair_.active_events);
  EXPECT_EQ(active->event, RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(active->id, pair_.active.id);
  EXPECT_EQ(active.data(), iwarp() ? "welcome" : Padded("welcome", 196));
  EXPECT_EQ(active->param.conn.initiator_depth, 2);
  EXPECT_EQ(active->param.conn.responder_resources, 8);
  const HeldEvent passive(api_, pair_.passive_events);
  EXPECT_EQ(passive->event, RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(passive->param.conn.private_data_len, 0);
  ibv_qp_attr attr = {};
  ibv_qp_init_attr init = {};
  api_.query_qp(pair_.active.id->qp, &attr, 0, &init);
  EXPECT_EQ(attr.max_rd_atomic, 2);
  EXPECT_EQ(attr.max_dest_rd_atomic, 8);
  api_.query_qp(pair_.passive.id->qp, &attr, 0, &init);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.max_rd_atomic, 8);
  EXPECT_EQ(attr.max_dest_rd_atomic, 2);
}

TEST_P(FakeConnect, AcceptWithoutParametersTakesTheRequests) {
  Request();

  ASSERT_EQ(api_.accept(pair_.passive.id, nullptr), 0);

  ibv_qp_attr attr = {};
  ibv_qp_init_attr init = {};
  api_.query_qp(pair_.passive.id->qp, &attr, 0, &init);
  EXPECT_EQ(attr.max_rd_atomic, 16);
  EXPECT_EQ(attr.max_dest_rd_atomic, 3);
}

TEST_P(FakeConnect, RejectTellsWhy) {
  Request();
  pair_.active.PostRecv(5);

  EXPECT_EQ(api_.reject(pair_.passive.id, "no", 2), 0);

  const HeldEvent rejected(api_, pair_.active_events);
  EXPECT_EQ(rejected->event, RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(rejected->status, iwarp() ? -ECONNREFUSED : 28);
  EXPECT_EQ(rejected.data(), iwarp() ? "no" : Padded("no", 148));
  EXPECT_THAT(Statuses(Poll(pair_.active.recv_cq)),
              ElementsAre(IBV_WC_WR_FLUSH_ERR));
  EXPECT_EQ(api_.accept(pair_.passive.id, nullptr), -1);
}

TEST_P(FakeConnect, DestroyedRequestIsARejection) {
  rdma_conn_param param = Param("");
  api_.connect(pair_.active.id, &param);
  const rdma_cm_event request =
      TakeEvent(api_, pair_.passive_events, RDMA_CM_EVENT_CONNECT_REQUEST);

  EXPECT_EQ(api_.destroy_id(request.id), 0);

  TakeEvent(api_, pair_.active_events, RDMA_CM_EVENT_REJECTED);
}

TEST_P(FakeConnect, NobodyListening) {
  rdma_cm_id* listener = pair_.listener;
  api_.destroy_id(listener);
  api_.create_id(pair_.passive_events, &pair_.listener, nullptr, RDMA_PS_TCP);
  rdma_conn_param param = Param("");

  EXPECT_EQ(api_.connect(pair_.active.id, &param), 0);

  EXPECT_EQ(TakeEvent(api_, pair_.active_events, RDMA_CM_EVENT_REJECTED).status,
            iwarp() ? -ECONNREFUSED : 8);
}

TEST_P(FakeConnect, ListenerTakesUnfetchedRequestsWithIt) {
  rdma_conn_param param = Param("");
  api_.connect(pair_.active.id, &param);
  EXPECT_EQ(fabric_.live_objects().ids, 3);

  api_.destroy_id(pair_.listener);

  TakeEvent(api_, pair_.active_events, RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(fabric_.live_objects().ids, 1);
  api_.create_id(pair_.passive_events, &pair_.listener, nullptr, RDMA_PS_TCP);
}

TEST_P(FakeConnect, ActiveThatLeavesIsGone) {
  Request();
  pair_.active.Destroy();
  api_.destroy_id(pair_.active.id);
  pair_.active.api = nullptr;
  pair_.active.id = nullptr;

  TakeEvent(api_, pair_.passive_events, RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(api_.accept(pair_.passive.id, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_P(FakeConnect, RefusesParametersBeyondTheDevice) {
  rdma_conn_param param = Param("");
  param.responder_resources = 129;
  EXPECT_EQ(api_.connect(pair_.active.id, &param), -1);
  EXPECT_EQ(errno, EINVAL);
  const std::string too_long(iwarp() ? 252 : 57, 'x');
  param = Param(too_long);
  EXPECT_EQ(api_.connect(pair_.active.id, &param), -1);

  param = Param("");
  param.responder_resources = RDMA_MAX_RESP_RES;  // as many as the device has
  EXPECT_EQ(api_.connect(pair_.active.id, &param), 0);

  const rdma_cm_event request =
      TakeEvent(api_, pair_.passive_events, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(request.param.conn.initiator_depth, 128);
  api_.destroy_id(request.id);
}

TEST_P(FakeConnect, DisconnectFlushesAndTellsBoth) {
  Establish();
  pair_.active.PostRecv(1);
  pair_.passive.PostRecv(2);

  EXPECT_EQ(api_.disconnect(pair_.active.id), 0);

  TakeEvent(api_, pair_.active_events, RDMA_CM_EVENT_DISCONNECTED);
  TakeEvent(api_, pair_.passive_events, RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_THAT(WrIds(Poll(pair_.active.recv_cq)), ElementsAre(1));
  EXPECT_THAT(WrIds(Poll(pair_.passive.recv_cq)), ElementsAre(2));
  EXPECT_EQ(api_.disconnect(pair_.passive.id), 0);  // again, from over there
  EXPECT_FALSE(IsReadable(pair_.active_events->fd));
}

TEST_P(FakeConnect, DestroyingAConnectedIdDisconnects) {
  Establish();
  pair_.active.Destroy();
  api_.destroy_id(pair_.active.id);
  pair_.active.api = nullptr;
  pair_.active.id = nullptr;

  TakeEvent(api_, pair_.passive_events, RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(fabric_.qp_state(pair_.passive.id->qp), IBV_QPS_ERR);
}

TEST_P(FakeConnect, MigratedIdHearsElsewhere) {
  rdma_conn_param param = Param("");
  api_.connect(pair_.active.id, &param);
  const rdma_cm_event request =
      TakeEvent(api_, pair_.passive_events, RDMA_CM_EVENT_CONNECT_REQUEST);
  rdma_event_channel* reactor = api_.create_event_channel();

  EXPECT_EQ(api_.migrate_id(request.id, reactor), 0);

  pair_.passive.Make(&fabric_, request.id, {});
  EXPECT_EQ(api_.accept(request.id, nullptr), 0);
  EXPECT_EQ(TakeEvent(api_, reactor, RDMA_CM_EVENT_ESTABLISHED).id, request.id);
  EXPECT_FALSE(IsReadable(pair_.passive_events->fd));
  EXPECT_EQ(api_.migrate_id(request.id, pair_.passive_events), 0);
  api_.destroy_event_channel(reactor);
}

TEST_P(FakeConnect, ListenerMigratesWithItsRequests) {
  rdma_conn_param param = Param("");
  api_.connect(pair_.active.id, &param);
  rdma_event_channel* other = api_.create_event_channel();

  EXPECT_EQ(api_.migrate_id(pair_.listener, other), 0);

  const rdma_cm_event request =
      TakeEvent(api_, other, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(request.id->channel, other);
  api_.destroy_id(request.id);
  api_.migrate_id(pair_.listener, pair_.passive_events);
  api_.destroy_event_channel(other);
}

TEST(FakeRoce, PeerIsNotFlushedUntilItActs) {
  FakeFabric fabric({FakeDeviceOptions::Rxe()});
  FakePair pair(&fabric);
  pair.passive.PostRecv(1);

  EXPECT_EQ(pair.api.disconnect(pair.active.id), 0);

  TakeEvent(pair.api, pair.passive_events, RDMA_CM_EVENT_DISCONNECTED);
  TakeEvent(pair.api, pair.passive_events, RDMA_CM_EVENT_TIMEWAIT_EXIT);
  EXPECT_THAT(Poll(pair.passive.recv_cq), IsEmpty());
  EXPECT_EQ(pair.api.disconnect(pair.passive.id), 0);
  EXPECT_THAT(WrIds(Poll(pair.passive.recv_cq)), ElementsAre(1));
}

// Connects to `destination` and expects the request at `listener`.
void ExpectReaches(FakeFabric* fabric, rdma_cm_id* listener,
                   sockaddr* destination) {
  const VerbsApi& api = fabric->api();
  rdma_event_channel* channel = api.create_event_channel();
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(api.create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
  ASSERT_EQ(api.resolve_addr(id, nullptr, destination, 1000), 0);
  TakeEvent(api, channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_EQ(api.resolve_route(id, 1000), 0);
  TakeEvent(api, channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
  FakeNode node;
  node.Make(fabric, id, {});
  rdma_conn_param param = {};
  ASSERT_EQ(api.connect(id, &param), 0);
  const rdma_cm_event request =
      TakeEvent(api, listener->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(request.listen_id, listener);
  EXPECT_EQ(request.id->verbs, id->verbs);
  api.destroy_id(request.id);
  node.Destroy();
  api.destroy_id(id);
  api.destroy_event_channel(channel);
}

TEST(FakeListen, WildcardServesAllDevicesAndFamilies) {
  FakeFabric fabric(std::vector<FakeDeviceOptions>(2));
  const VerbsApi& api = fabric.api();
  rdma_event_channel* channel = api.create_event_channel();
  rdma_cm_id* wildcard = nullptr;
  api.create_id(channel, &wildcard, nullptr, RDMA_PS_TCP);
  sockaddr_in6 any = V6("::", 4420);
  ASSERT_EQ(api.bind_addr(wildcard, Raw(any)), 0);
  ASSERT_EQ(api.listen(wildcard, 10), 0);
  sockaddr_in loopback = V4("127.0.0.1", 4420);
  sockaddr_in second = V4("192.168.1.1", 4420);
  sockaddr_in6 v6 = V6("::1", 4420);

  ExpectReaches(&fabric, wildcard, Raw(loopback));
  ExpectReaches(&fabric, wildcard, Raw(second));
  ExpectReaches(&fabric, wildcard, Raw(v6));

  api.destroy_id(wildcard);
  api.destroy_event_channel(channel);
}

TEST(FakeListen, FullBacklogRejects) {
  FakeFabric fabric;
  FakePair a(&fabric, {.connect = false});
  FakePair b(&fabric, {.connect = false});
  const VerbsApi& api = fabric.api();
  rdma_cm_id* listener = nullptr;
  api.create_id(a.passive_events, &listener, nullptr, RDMA_PS_TCP);
  // Takes over the port that b resolved.
  sockaddr_in address = V4("127.0.0.1", 0);
  address.sin_port = api.get_src_port(a.listener);
  api.destroy_id(a.listener);
  a.listener = listener;
  ASSERT_EQ(api.bind_addr(listener, Raw(address)), 0);
  ASSERT_EQ(api.listen(listener, 1), 0);
  std::memcpy(rdma_get_peer_addr(b.active.id), &address, sizeof(address));
  rdma_conn_param param = {};

  EXPECT_EQ(api.connect(a.active.id, &param), 0);
  EXPECT_EQ(api.connect(b.active.id, &param), 0);

  TakeEvent(api, b.active_events, RDMA_CM_EVENT_REJECTED);
  EXPECT_FALSE(IsReadable(a.active_events->fd));
}

}  // namespace
}  // namespace sluice
