// The connection manager: requests, answers, their data and events [iwarp §5].
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/conformance/pattern.h"
#include "tests/verbs/pair.h"

namespace sluice::verbs {
namespace {

constexpr size_t kDataMax = 251;  // on iWARP [iwarp §1.5]

// What an event's private data is to a test: iWARP delivers it as it is, others
// pad it.
std::string DataOf(const CmSeen& event, const Bytes& wanted) {
  if (Device().is_iwarp() && event.private_data.size() != wanted.size()) {
    return absl::StrCat(event.private_data.size(), " bytes");
  }
  if (event.private_data.size() < wanted.size()) return "too short";
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (event.private_data[i] != wanted[i]) return absl::StrCat("byte ", i);
  }
  return "right";
}

class Connect : public Verbs {
 protected:
  static PairOptions Unconnected() {
    PairOptions options;
    options.connect = false;
    return options;
  }
  static int Request(Pair* pair, const Bytes& data) {
    rdma_conn_param param = Param(Depths(), data);
    return Api().connect(pair->active->id, &param);
  }
  static bool AwaitRequest(Pair* pair) {
    pair->request = pair->passive_events.Expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    if (pair->request.id == nullptr) return false;
    pair->passive =
        std::make_unique<Endpoint>(pair->request.id, EndpointOptions());
    return pair->passive->made;
  }
  static int Accept(Pair* pair, const Bytes& data) {
    rdma_conn_param param = Param(Depths(), data);
    return Api().accept(pair->passive->id, &param);
  }
  static size_t DataMax(size_t others) {
    return Device().is_iwarp() ? kDataMax : others;
  }
};

TEST_F(Connect, PrivateDataOfRequestAndAccept) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{32}, DataMax(56)}) {
    SCOPED_TRACE(bytes);
    const Bytes asked = conformance::Pattern(1, bytes);
    const Bytes answered = conformance::Pattern(2, bytes);
    Pair pair(Unconnected());
    ASSERT_TRUE(pair.ok());
    ASSERT_EQ(Request(&pair, asked), 0);
    ASSERT_TRUE(AwaitRequest(&pair));
    Check("request", DataOf(pair.request, asked), {"right"});
    EXPECT_EQ(pair.request.listen_id, pair.listener->id);
    EXPECT_EQ(pair.request.status, 0);
    ASSERT_EQ(Accept(&pair, answered), 0);
    const CmSeen active = pair.active_events.Expect(RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(active.id, pair.active->id);
    EXPECT_EQ(active.status, 0);
    Check("accept", DataOf(active, answered), {"right"});
    const CmSeen passive =
        pair.passive_events.Expect(RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(passive.id, pair.passive->id);
    EXPECT_EQ(passive.status, 0);
    EXPECT_TRUE(pair.Greet());
  }
}

TEST_F(Connect, PrivateDataOfReject) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4}, DataMax(148)}) {
    SCOPED_TRACE(bytes);
    const Bytes answered = conformance::Pattern(3, bytes);
    Pair pair(Unconnected());
    ASSERT_TRUE(pair.ok());
    ASSERT_EQ(Request(&pair, {}), 0);
    const CmSeen request =
        pair.passive_events.Expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    ASSERT_NE(request.id, nullptr);

    ASSERT_EQ(
        Api().reject(request.id, answered.data(), static_cast<uint8_t>(bytes)),
        0);

    EXPECT_EQ(Api().destroy_id(request.id), 0);
    const CmSeen rejected = pair.active_events.Expect(RDMA_CM_EVENT_REJECTED);
    EXPECT_EQ(rejected.id, pair.active->id);
    // A negative errno on iWARP, a reason of InfiniBand's elsewhere.
    Check("status", absl::StrCat(rejected.status),
          Device().is_iwarp()
              ? std::vector<std::string>{absl::StrCat(-ECONNREFUSED),
                                         absl::StrCat(-ECONNRESET)}
              : std::vector<std::string>{"28"});
    Check("reject", DataOf(rejected, answered), {"right"});
    PumpFor();
    EXPECT_TRUE(pair.active_events.seen.empty());
    EXPECT_TRUE(pair.passive_events.seen.empty());
  }
}

TEST_F(Connect, TooMuchPrivateDataIsRefused) {
  for (const size_t bytes : {kDataMax + 1, size_t{255}}) {
    SCOPED_TRACE(bytes);
    const Bytes data = conformance::Pattern(4, bytes);
    Pair pair(Unconnected());
    ASSERT_TRUE(pair.ok());
    if (!Spared("connect")) {
      EXPECT_EQ(Request(&pair, data), -1);
      EXPECT_EQ(ErrnoName(errno), "EINVAL");
    }
    ASSERT_EQ(Request(&pair, {}), 0);
    ASSERT_TRUE(AwaitRequest(&pair));
    if (!Spared("accept")) {
      EXPECT_EQ(Accept(&pair, data), -1);
      EXPECT_EQ(ErrnoName(errno), "EINVAL");
      EXPECT_EQ(Api().reject(pair.passive->id, data.data(),
                             static_cast<uint8_t>(bytes)),
                -1);
      EXPECT_EQ(ErrnoName(errno), "EINVAL");
    }
    // Nothing has come of it.
    if (Spared("accept once more")) continue;
    ASSERT_EQ(Accept(&pair, {}), 0);
    pair.active_events.Expect(RDMA_CM_EVENT_ESTABLISHED);
    pair.passive_events.Expect(RDMA_CM_EVENT_ESTABLISHED);
  }
}

TEST_F(Connect, EachEventOnce) {
  for (const bool by_active : {true, false}) {
    SCOPED_TRACE(by_active);
    Pair pair;
    ASSERT_TRUE(pair.ok());
    rdma_cm_id* id = by_active ? pair.active->id : pair.passive->id;
    ASSERT_EQ(Api().disconnect(id), 0);
    ASSERT_TRUE(pair.WaitDisconnected());
    EXPECT_EQ(pair.active_events.Expect(RDMA_CM_EVENT_DISCONNECTED).id,
              pair.active->id);
    EXPECT_EQ(pair.passive_events.Expect(RDMA_CM_EVENT_DISCONNECTED).id,
              pair.passive->id);
    // Again, on either side: no error that matters, no other event.
    (void)Api().disconnect(pair.active->id);
    (void)Api().disconnect(pair.passive->id);
    PumpFor();
    EXPECT_EQ(pair.active_events.Count(RDMA_CM_EVENT_DISCONNECTED), 0);
    EXPECT_EQ(pair.passive_events.Count(RDMA_CM_EVENT_DISCONNECTED), 0);
  }
}

// Both at once is one end all the same.
TEST_F(Connect, BothDisconnect) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  ASSERT_EQ(Api().disconnect(pair.active->id), 0);
  ASSERT_EQ(Api().disconnect(pair.passive->id), 0);
  pair.active_events.Expect(RDMA_CM_EVENT_DISCONNECTED);
  pair.passive_events.Expect(RDMA_CM_EVENT_DISCONNECTED);
  PumpFor();
  EXPECT_EQ(pair.active_events.Count(RDMA_CM_EVENT_DISCONNECTED), 0);
  EXPECT_EQ(pair.passive_events.Count(RDMA_CM_EVENT_DISCONNECTED), 0);
}

TEST_F(Connect, ToAClosedPort) {
  CmEvents events;
  uint16_t port = 0;
  {
    Listener gone(&events);
    port = gone.port;
  }
  rdma_cm_id* id = Dial(&events, port);
  ASSERT_NE(id, nullptr);
  Endpoint end(id, EndpointOptions());
  ASSERT_TRUE(end.made);
  rdma_conn_param param = Param(Depths());
  const int result = Api().connect(id, &param);
  if (result != 0) {
    Check("connect", ErrnoName(errno), {"0"});
    return;
  }
  EXPECT_EQ(events.Expect(RDMA_CM_EVENT_REJECTED).id, id);
}

// A request that nobody answers goes with its id: the peer is told at once, and
// does not ask again.
TEST_F(Connect, DestroyedRequestIsRejected) {
  Pair pair(Unconnected());
  ASSERT_TRUE(pair.ok());
  ASSERT_EQ(Request(&pair, {}), 0);
  const CmSeen request =
      pair.passive_events.Expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_NE(request.id, nullptr);
  EXPECT_EQ(Api().destroy_id(request.id), 0);
  EXPECT_EQ(pair.active_events.Expect(RDMA_CM_EVENT_REJECTED).id,
            pair.active->id);
  PumpFor();
  EXPECT_EQ(pair.passive_events.Count(RDMA_CM_EVENT_CONNECT_REQUEST), 0);
}

// So does one that nobody has fetched, with its listener.
TEST_F(Connect, ListenerTakesUnfetchedRequestsAlong) {
  CmEvents active_events;
  CmEvents passive_events;
  auto listener = std::make_unique<Listener>(&passive_events);
  std::vector<std::unique_ptr<Endpoint>> ends;
  for (int i = 0; i < 2; ++i) {
    rdma_cm_id* id = Dial(&active_events, listener->port);
    ASSERT_NE(id, nullptr);
    ends.push_back(std::make_unique<Endpoint>(id, EndpointOptions()));
    ASSERT_TRUE(ends.back()->made);
  }
  passive_events.held = true;
  for (const auto& end : ends) {
    rdma_conn_param param = Param(Depths());
    ASSERT_EQ(Api().connect(end->id, &param), 0);
  }
  // Both are there; one is fetched.
  rdma_cm_event* event = nullptr;
  ASSERT_TRUE(Until([&] {
    return Api().get_cm_event(passive_events.channel(), &event) == 0;
  }));
  ASSERT_EQ(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
  rdma_cm_id* fetched = event->id;
  EXPECT_EQ(Api().ack_cm_event(event), 0);
  EXPECT_TRUE(Until([&] { return IsReadable(passive_events.channel()->fd); }));

  listener = nullptr;
  EXPECT_TRUE(Until([&] { return active_events.Has(RDMA_CM_EVENT_REJECTED); }));
  EXPECT_EQ(Api().destroy_id(fetched), 0);
  EXPECT_TRUE(
      Until([&] { return active_events.Count(RDMA_CM_EVENT_REJECTED) == 2; }));
}

TEST_F(Connect, DestroyIdWithUnfetchedEvents) {
  CmEvents events;
  Listener listener(&events);
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(Api().create_id(events.channel(), &id, nullptr, RDMA_PS_TCP), 0);
  sockaddr_storage to = Address(listener.port);
  ASSERT_EQ(Api().resolve_addr(id, nullptr, Raw(&to), 5000), 0);
  ASSERT_TRUE(IsReadable(events.channel()->fd, Scaled(kWait)));
  EXPECT_EQ(Api().destroy_id(id), 0);
  PumpFor();
  EXPECT_TRUE(events.seen.empty());
}

TEST_F(Connect, DestroyConnectedIdTellsThePeer) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  pair.active = nullptr;
  if (Spared("peer")) return;
  EXPECT_EQ(pair.passive_events.Expect(RDMA_CM_EVENT_DISCONNECTED).id,
            pair.passive->id);
}

// rdma_destroy_id waits until all that was fetched is acknowledged; a request
// is its listener's.
TEST_F(Connect, DestroyIdWaitsForAcknowledgements) {
  CmEvents active_events;
  CmEvents passive_events;
  auto listener = std::make_unique<Listener>(&passive_events);
  rdma_cm_id* id = Dial(&active_events, listener->port);
  ASSERT_NE(id, nullptr);
  Endpoint active(id, EndpointOptions());
  ASSERT_TRUE(active.made);
  rdma_conn_param param = Param(Depths());
  ASSERT_EQ(Api().connect(id, &param), 0);
  passive_events.held = true;
  rdma_cm_event* event = nullptr;
  ASSERT_TRUE(Until([&] {
    return Api().get_cm_event(passive_events.channel(), &event) == 0;
  }));
  rdma_cm_id* requested = event->id;
  std::atomic<bool> destroyed{false};
  std::thread destroyer([&] {
    listener = nullptr;
    destroyed = true;
  });
  PumpFor();
  EXPECT_FALSE(destroyed);
  EXPECT_EQ(Api().ack_cm_event(event), 0);
  destroyer.join();
  EXPECT_TRUE(destroyed);
  EXPECT_EQ(Api().destroy_id(requested), 0);
}

TEST_F(Connect, QueuePairGoesWhileConnecting) {
  Pair pair(Unconnected());
  ASSERT_TRUE(pair.ok());
  ASSERT_EQ(Request(&pair, {}), 0);
  ASSERT_TRUE(AwaitRequest(&pair));
  pair.active->DestroyQp();
  if (Accept(&pair, {}) != 0) return;
  if (Spared("event")) return;
  EXPECT_TRUE(Until([&] { return !pair.active_events.seen.empty(); }));
  Check("event", rdma_event_str(pair.active_events.seen.front().type),
        {"RDMA_CM_EVENT_CONNECT_ERROR", "RDMA_CM_EVENT_UNREACHABLE"});
}

// The peer is gone when it is answered: an error, or a connection that ends.
TEST_F(Connect, PeerLeavesBeforeTheAnswer) {
  Pair pair(Unconnected());
  ASSERT_TRUE(pair.ok());
  ASSERT_EQ(Request(&pair, {}), 0);
  ASSERT_TRUE(AwaitRequest(&pair));
  ASSERT_EQ(pair.passive->PostRecv(1, pair.passive->Sge(0, 64)), 0);
  pair.active = nullptr;
  PumpFor(absl::Milliseconds(5));
  if (Accept(&pair, {}) != 0) return;
  EXPECT_TRUE(Until([&] {
    return pair.passive_events.Has(RDMA_CM_EVENT_DISCONNECTED) ||
           pair.passive_events.Has(RDMA_CM_EVENT_REJECTED) ||
           pair.passive_events.Has(RDMA_CM_EVENT_CONNECT_ERROR) ||
           pair.passive_events.Has(RDMA_CM_EVENT_UNREACHABLE);
  }));
}

// An id that was accepted and one that was not, on the channel of the listener:
// they outlive it.
TEST_F(Connect, ConnectionsOutliveTheirListener) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  pair.listener = nullptr;
  EXPECT_TRUE(pair.Greet());
}

TEST_F(Connect, AcceptAndRejectWantARequest) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  rdma_conn_param param = Param(Depths());
  EXPECT_EQ(Api().accept(pair.passive->id, &param), -1);
  EXPECT_EQ(Api().reject(pair.passive->id, nullptr, 0), -1);
  EXPECT_EQ(Api().connect(pair.active->id, &param), -1);
  if (Spared("afterwards")) return;
  EXPECT_TRUE(pair.Greet());
}

// More requests than the backlog: those beyond it are not heard of, and the
// others are.
TEST_F(Connect, BacklogIsALimit) {
  constexpr int kBacklog = 2;
  constexpr int kIds = 6;
  CmEvents passive;
  CmEvents active;
  Listener listener(&passive, kBacklog);
  std::vector<std::unique_ptr<Endpoint>> ends;
  for (int i = 0; i < kIds; ++i) {
    rdma_cm_id* id = Dial(&active, listener.port);
    ASSERT_NE(id, nullptr);
    ends.push_back(std::make_unique<Endpoint>(id, EndpointOptions()));
    ASSERT_TRUE(ends.back()->made);
  }
  for (const auto& end : ends) {
    rdma_conn_param param = Param(Depths());
    ASSERT_EQ(Api().connect(end->id, &param), 0);
  }
  int asked = 0;
  int refused = 0;
  // Whoever is dropped may have been seen only after room was made.
  EXPECT_TRUE(Until(
      [&] {
        while (passive.Has(RDMA_CM_EVENT_CONNECT_REQUEST)) {
          rdma_cm_id* id = passive.seen.front().id;
          passive.seen.pop_front();
          EXPECT_EQ(Api().reject(id, nullptr, 0), 0);
          EXPECT_EQ(Api().destroy_id(id), 0);
          ++asked;
        }
        refused = active.Count(RDMA_CM_EVENT_REJECTED) +
                  active.Count(RDMA_CM_EVENT_UNREACHABLE);
        return refused == kIds;
      },
      absl::Seconds(15)));  // those that hear nothing give up after ten
  EXPECT_GE(asked, kBacklog);
}

class Listen : public Verbs {
 protected:
  // A connection to `to` of a listener on `on`.
  static void ExpectConnects(const std::string& on, const std::string& to) {
    CmEvents passive_events;
    CmEvents active_events;
    Listener listener(&passive_events, 4, on);
    ASSERT_NE(listener.port, 0);
    rdma_cm_id* id = Dial(&active_events, listener.port, to);
    ASSERT_NE(id, nullptr);
    Endpoint active(id, EndpointOptions());
    ASSERT_TRUE(active.made);
    rdma_conn_param param = Param(Depths());
    ASSERT_EQ(Api().connect(id, &param), 0);
    const CmSeen request = passive_events.Expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    ASSERT_NE(request.id, nullptr);
    EXPECT_EQ(ntohs(Api().get_src_port(request.id)), listener.port);
    EXPECT_NE(request.id->verbs, nullptr);
    Endpoint passive(request.id, EndpointOptions());
    ASSERT_TRUE(passive.made);
    ASSERT_EQ(Api().accept(request.id, &param), 0);
    active_events.Expect(RDMA_CM_EVENT_ESTABLISHED);
    passive_events.Expect(RDMA_CM_EVENT_ESTABLISHED);
  }
};

TEST_F(Listen, Wildcard) { ExpectConnects("0.0.0.0", Flags().address); }

TEST_F(Listen, Ipv6) {
  if (Device().kind != DeviceKind::kIwarp) {
    GTEST_SKIP() << "::1 is on no device of the kernel's";
  }
  ExpectConnects("::1", "::1");
  ExpectConnects("::", "::1");
  ExpectConnects("::", Flags().address);
}

TEST_F(Listen, PortIsTaken) {
  CmEvents events;
  Listener listener(&events);
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(Api().create_id(events.channel(), &id, nullptr, RDMA_PS_TCP), 0);
  sockaddr_storage address = Address(listener.port);
  int result = Api().bind_addr(id, Raw(&address));
  if (result == 0) result = Api().listen(id, 4);
  const std::string answer = result == 0 ? "0" : ErrnoName(errno);
  EXPECT_EQ(Api().destroy_id(id), 0);
  Check("second listener", answer, {"EADDRINUSE"});
}

TEST_F(Listen, AddressOfAnotherMachine) {
  CmEvents events;
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(Api().create_id(events.channel(), &id, nullptr, RDMA_PS_TCP), 0);
  sockaddr_storage address = AddressOf("192.0.2.1", 0);
  const int result = Api().bind_addr(id, Raw(&address));
  const std::string answer = result == 0 ? "0" : ErrnoName(errno);
  EXPECT_EQ(Api().destroy_id(id), 0);
  Check("bind", answer, {"EADDRNOTAVAIL", "ENODEV"});
}

TEST_F(Listen, OptionsAreTaken) {
  CmEvents events;
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(Api().create_id(events.channel(), &id, nullptr, RDMA_PS_TCP), 0);
  uint8_t type_of_service = 8;
  int on = 1;
  EXPECT_EQ(Api().set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS,
                             &type_of_service, sizeof(type_of_service)),
            0);
  EXPECT_EQ(Api().set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on,
                             sizeof(on)),
            0);
  EXPECT_EQ(Api().set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on,
                             sizeof(on)),
            0);
  EXPECT_EQ(Api().set_option(id, RDMA_OPTION_ID, 4711, &on, sizeof(on)), -1);
  EXPECT_EQ(Api().destroy_id(id), 0);
}

// A channel that nobody has made non-blocking: the call waits by itself.
TEST_F(Listen, BlockingCallWaits) {
  CmEvents events;
  Listener listener(&events);
  rdma_event_channel* channel = Api().create_event_channel();
  ASSERT_NE(channel, nullptr);
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(Api().create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
  sockaddr_storage to = Address(listener.port);
  ASSERT_EQ(Api().resolve_addr(id, nullptr, Raw(&to), 5000), 0);
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(Api().get_cm_event(channel, &event), 0);
  EXPECT_EQ(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(Api().ack_cm_event(event), 0);
  EXPECT_EQ(Api().destroy_id(id), 0);
  Api().destroy_event_channel(channel);
}

TEST_F(Listen, PortIsFreeAgain) {
  CmEvents events;
  uint16_t port = 0;
  for (int i = 0; i < 3; ++i) {
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(Api().create_id(events.channel(), &id, nullptr, RDMA_PS_TCP), 0);
    sockaddr_storage address = Address(port);
    ASSERT_EQ(Api().bind_addr(id, Raw(&address)), 0);
    ASSERT_EQ(Api().listen(id, 4), 0);
    port = ntohs(Api().get_src_port(id));
    EXPECT_EQ(Api().destroy_id(id), 0);
  }
}

class Migrate : public Verbs {};

// Events that nobody has fetched move too.
TEST_F(Migrate, PendingEventsMove) {
  CmEvents first;
  CmEvents second;
  Listener listener(&first);
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(Api().create_id(first.channel(), &id, nullptr, RDMA_PS_TCP), 0);
  sockaddr_storage to = Address(listener.port);
  ASSERT_EQ(Api().resolve_addr(id, nullptr, Raw(&to), 5000), 0);
  ASSERT_TRUE(IsReadable(first.channel()->fd, Scaled(kWait)));

  ASSERT_EQ(Api().migrate_id(id, second.channel()), 0);

  EXPECT_EQ(id->channel, second.channel());
  EXPECT_EQ(second.Expect(RDMA_CM_EVENT_ADDR_RESOLVED).id, id);
  EXPECT_TRUE(first.seen.empty());
  EXPECT_EQ(Api().destroy_id(id), 0);
}

TEST_F(Migrate, ListenerWithItsRequests) {
  CmEvents active_events;
  CmEvents first;
  CmEvents second;
  Listener listener(&first);
  rdma_cm_id* id = Dial(&active_events, listener.port);
  ASSERT_NE(id, nullptr);
  Endpoint active(id, EndpointOptions());
  ASSERT_TRUE(active.made);

  ASSERT_EQ(Api().migrate_id(listener.id, second.channel()), 0);
  rdma_conn_param param = Param(Depths());
  ASSERT_EQ(Api().connect(id, &param), 0);

  const CmSeen request = second.Expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_NE(request.id, nullptr);
  EXPECT_EQ(request.id->channel, second.channel());
  EXPECT_EQ(Api().reject(request.id, nullptr, 0), 0);
  EXPECT_EQ(Api().destroy_id(request.id), 0);
  active_events.Expect(RDMA_CM_EVENT_REJECTED);
  EXPECT_TRUE(first.seen.empty());
}

TEST_F(Migrate, WhileItConnects) {
  PairOptions options;
  options.connect = false;
  Pair pair(options);
  ASSERT_TRUE(pair.ok());
  CmEvents own;
  rdma_conn_param param = Param(Depths());
  ASSERT_EQ(Api().connect(pair.active->id, &param), 0);
  ASSERT_EQ(Api().migrate_id(pair.active->id, own.channel()), 0);
  const CmSeen request =
      pair.passive_events.Expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_NE(request.id, nullptr);
  pair.passive = std::make_unique<Endpoint>(request.id, EndpointOptions());
  ASSERT_TRUE(pair.passive->made);
  ASSERT_EQ(Api().accept(request.id, &param), 0);
  EXPECT_EQ(own.Expect(RDMA_CM_EVENT_ESTABLISHED).id, pair.active->id);
  EXPECT_TRUE(pair.Greet());
  pair.active = nullptr;  // before its channel
  EXPECT_TRUE(pair.active_events.seen.empty());
}

// As a server does: one channel for requests, another for connections.
TEST_F(Migrate, RequestBeforeItIsAccepted) {
  PairOptions options;
  options.connect = false;
  Pair pair(options);
  ASSERT_TRUE(pair.ok());
  CmEvents own;
  rdma_conn_param param = Param(Depths());
  ASSERT_EQ(Api().connect(pair.active->id, &param), 0);
  const CmSeen request =
      pair.passive_events.Expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_NE(request.id, nullptr);
  ASSERT_EQ(Api().migrate_id(request.id, own.channel()), 0);
  {
    Endpoint passive(request.id, EndpointOptions());
    ASSERT_TRUE(passive.made);
    ASSERT_EQ(Api().accept(request.id, &param), 0);
    EXPECT_EQ(own.Expect(RDMA_CM_EVENT_ESTABLISHED).id, request.id);
    pair.active_events.Expect(RDMA_CM_EVENT_ESTABLISHED);
    ASSERT_EQ(Api().disconnect(pair.active->id), 0);
    EXPECT_EQ(own.Expect(RDMA_CM_EVENT_DISCONNECTED).id, request.id);
  }
  EXPECT_TRUE(pair.passive_events.seen.empty());
}

// The end of a connection is told to the channel that it moved to, also when
// nobody looks at anything else.
TEST_F(Migrate, EstablishedIdHearsOfItsEnd) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  rdma_event_channel* own = Api().create_event_channel();
  ASSERT_NE(own, nullptr);
  SetNonblocking(own->fd);
  ASSERT_EQ(Api().migrate_id(pair.passive->id, own), 0);

  pair.passive->held = true;
  ASSERT_EQ(Api().disconnect(pair.active->id), 0);

  rdma_cm_event* event = nullptr;
  Deadline deadline;
  while (Api().get_cm_event(own, &event) != 0 && deadline.Nap()) {
    IsReadable(own->fd, absl::Milliseconds(1));
  }
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->event, RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(event->id, pair.passive->id);
  EXPECT_EQ(Api().ack_cm_event(event), 0);
  pair.passive = nullptr;
  Api().destroy_event_channel(own);
}

}  // namespace
}  // namespace sluice::verbs
