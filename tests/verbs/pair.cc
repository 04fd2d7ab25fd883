#include "tests/verbs/pair.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sluice::verbs {
namespace {

constexpr uint64_t kGreeting = 0x6865'6c6c'6f00;
constexpr uint32_t kGreetingBytes = 32;
// siw may not see what comes first until something follows (tools/lab/README).
constexpr absl::Duration kNudgeAfter = absl::Milliseconds(300);
constexpr int kNudgesMax = 20;

int ResolveMs() {
  return static_cast<int>(absl::ToInt64Milliseconds(Scaled(kWait)));
}

// Takes it out of `from` if it is there.
bool TakeGreeting(std::vector<ibv_wc>* from, uint64_t wr_id) {
  const auto found =
      std::find_if(from->begin(), from->end(),
                   [wr_id](const ibv_wc& wc) { return wc.wr_id == wr_id; });
  if (found == from->end()) return false;
  from->erase(found);
  return true;
}

}  // namespace

Listener::Listener(CmEvents* events, int backlog, const std::string& address) {
  EXPECT_EQ(Api().create_id(events->channel(), &id, this, RDMA_PS_TCP), 0);
  sockaddr_storage storage = AddressOf(address, 0);
  EXPECT_EQ(Api().bind_addr(id, Raw(&storage)), 0) << address;
  EXPECT_EQ(Api().listen(id, backlog), 0);
  port = ntohs(Api().get_src_port(id));
  EXPECT_NE(port, 0);
}

Listener::~Listener() { EXPECT_EQ(Api().destroy_id(id), 0); }

rdma_cm_id* Dial(CmEvents* events, uint16_t port, const std::string& address) {
  rdma_cm_id* id = nullptr;
  if (Api().create_id(events->channel(), &id, nullptr, RDMA_PS_TCP) != 0) {
    ADD_FAILURE() << "rdma_create_id";
    return nullptr;
  }
  sockaddr_storage storage = AddressOf(address, port);
  EXPECT_EQ(Api().resolve_addr(id, nullptr, Raw(&storage), ResolveMs()), 0);
  const bool found = events->Expect(RDMA_CM_EVENT_ADDR_RESOLVED).id == id;
  if (found && Api().resolve_route(id, ResolveMs()) == 0 &&
      events->Expect(RDMA_CM_EVENT_ROUTE_RESOLVED).id == id)
    return id;
  Api().destroy_id(id);
  return nullptr;
}

rdma_conn_param Param(const Depths& depths, const Bytes& private_data) {
  rdma_conn_param param = {};
  param.initiator_depth = depths.initiator_depth;
  param.responder_resources = depths.responder_resources;
  // For RoCE: a receive that is missing is no error for long.
  param.retry_count = 7;
  param.rnr_retry_count = 0;
  if (private_data.empty()) return param;
  param.private_data = private_data.data();
  param.private_data_len = static_cast<uint8_t>(private_data.size());
  return param;
}

Pair::Pair(const PairOptions& options) {
  ok_ = Make(options);
  if (ok_ && options.connect) ok_ = Connect(options);
  if (ok_ && options.connect && options.greet) ok_ = Greet();
  EXPECT_TRUE(ok_) << "no connected pair";
}

bool Pair::Make(const PairOptions& options) {
  listener = std::make_unique<Listener>(&passive_events);
  rdma_cm_id* id = Dial(&active_events, listener->port);
  if (id == nullptr) return false;
  active = std::make_unique<Endpoint>(id, options.active);
  return active->made;
}

bool Pair::Connect(const PairOptions& options) {
  rdma_conn_param param = Param(options.active_depths);
  if (Api().connect(active->id, &param) != 0) return false;
  request = passive_events.Expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  if (request.id == nullptr) return false;
  passive = std::make_unique<Endpoint>(request.id, options.passive);
  if (!passive->made) return false;
  param = Param(options.passive_depths);
  if (Api().accept(passive->id, &param) != 0) return false;
  established = active_events.Expect(RDMA_CM_EVENT_ESTABLISHED);
  return established.id == active->id &&
         passive_events.Expect(RDMA_CM_EVENT_ESTABLISHED).id == passive->id;
}

bool Pair::Greet() {
  const size_t offset = active->memory().size() - kGreetingBytes;
  const size_t to = passive->memory().size() - kGreetingBytes;
  if (passive->PostRecv(kGreeting, passive->Sge(to, kGreetingBytes)) != 0 ||
      active->PostSend(kGreeting, active->Sge(offset, kGreetingBytes)) != 0) {
    return false;
  }
  bool sent = false;
  bool received = false;
  const auto done = [&] {
    sent |= TakeGreeting(&active->sent, kGreeting);
    received |= TakeGreeting(&passive->received, kGreeting);
    return sent && received;
  };
  for (int i = 0; i < kNudgesMax; ++i) {
    if (Until(done, kNudgeAfter)) return true;
    if (Device().kind != DeviceKind::kSiw) continue;
    (void)active->PostWrite(kGreeting + 1, active->Sge(offset, kGreetingBytes),
                            passive->At(to), 0);
  }
  return false;
}

bool Pair::WaitDisconnected() {
  bool answered = false;
  return Until([&] {
    const bool active_knows = active_events.Has(RDMA_CM_EVENT_DISCONNECTED);
    const bool passive_knows = passive_events.Has(RDMA_CM_EVENT_DISCONNECTED);
    if (active_knows != passive_knows && !answered) {
      (void)Api().disconnect(active_knows ? active->id : passive->id);
      answered = true;
    }
    return active_knows && passive_knows;
  });
}

}  // namespace sluice::verbs
