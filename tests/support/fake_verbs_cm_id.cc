// Ids of the connection manager before a connection: made, bound, resolved,
// listening, destroyed.
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>

#include "tests/support/fake_verbs_calls.h"
#include "tests/support/fake_verbs_fabric.h"

namespace sluice::fake {
namespace {

// Two ids may not own a port of which one could take the other's requests.
bool Conflict(Id* a, Id* b) {
  if (!b->owns_port || a == b) return false;
  if (PortOf(a->source()) != PortOf(b->source())) return false;
  if (!Serves(a, b->source()) && !Serves(b, a->source())) return false;
  return !a->reuse_address || !b->reuse_address ||
         b->state == IdState::kListening;
}

bool HasConflict(Id* id) {
  const auto& ids = id->fabric->ids.all();
  return std::any_of(ids.begin(), ids.end(),
                     [id](const auto& o) { return Conflict(id, o.get()); });
}

// Takes the port asked for or, for 0, one that is free; 0 or an errno.
int TakePort(Id* id) {
  constexpr uint16_t kFirstPort = 49152;
  if (PortOf(id->source()) == 0) {
    do {
      SetPort(&id->route.addr.src_storage, id->fabric->next_port++);
      if (id->fabric->next_port == 0) id->fabric->next_port = kFirstPort;
    } while (HasConflict(id));
  }
  if (HasConflict(id)) return EADDRINUSE;
  id->owns_port = true;
  return 0;
}

void SetDevice(Id* id, Context* context) {
  id->verbs = context->verbs();
  id->port_num = 1;
}

// Where an id without a source would connect from: the address itself, since
// every device here is of this machine.
int BindLike(Id* id, const sockaddr* destination) {
  sockaddr_storage source;
  CopyAddress(&source, destination);
  const bool is_bound = id->state == IdState::kBound;
  SetPort(&source, is_bound ? PortOf(id->source()) : uint16_t{0});
  id->owns_port = false;
  const auto* address = reinterpret_cast<const sockaddr*>(&source);
  return BindSource(id, address);
}

void RemoveEventsOf(const Id* id) {
  id->event_channel()->events.Extract(
      [id](const std::unique_ptr<CmEvent>& event) {
        return event->owner == id;
      });
}

// Requests that nobody fetched die with their listener.
void RejectPending(Id* listener) {
  std::vector<Id*> pending;
  for (const auto& id : listener->fabric->ids.all()) {
    if (id->listener == listener) pending.push_back(id.get());
  }
  for (Id* id : pending) {
    if (id->state == IdState::kRequested) RejectRequest(id, nullptr, 0);
    RemoveEventsOf(id);
    listener->fabric->ids.Remove(id);
  }
}

// The peer of an id that is destroyed learns it as the transport would say.
void LeavePeer(Id* id) {
  Id* peer = id->peer;
  if (id->state == IdState::kRequested && peer != nullptr) {
    RejectRequest(id, nullptr, 0);
  } else if (id->state == IdState::kConnecting && peer != nullptr) {
    peer->peer = nullptr;
    peer->state = IdState::kClosed;
    PushEvent(peer, RDMA_CM_EVENT_REJECTED, -ECONNRESET);
  } else if (id->state == IdState::kConnected) {
    const bool flushes =
        peer != nullptr &&
        peer->device_context()->options().flush_on_peer_disconnect;
    if (flushes && peer->qp != nullptr) Fail(Qp::From(peer->qp));
    CloseConnection(id);
  }
}

}  // namespace

bool Serves(Id* id, const sockaddr* address) {
  const sockaddr* source = id->source();
  if (!IsWildcard(source)) return SameAddress(source, address);
  if (source->sa_family == address->sa_family) return true;
  return source->sa_family == AF_INET6 && !id->family_only;
}

int BindSource(Id* id, const sockaddr* address) {
  if (AddressSize(address) == 0) return EAFNOSUPPORT;
  Context* context = nullptr;
  if (!IsWildcard(address)) {
    const Device* device = FindDevice(id->fabric, address);
    if (device == nullptr) return EADDRNOTAVAIL;
    if (device->present == nullptr) return ENODEV;
    context = device->present;
  }
  CopyAddress(&id->route.addr.src_storage, address);
  const int error = TakePort(id);
  if (error != 0) {
    id->route.addr.src_storage = {};
    return error;
  }
  if (context != nullptr) SetDevice(id, context);
  id->state = IdState::kBound;
  return 0;
}

int CreateId(rdma_event_channel* channel, rdma_cm_id** raw, void* context,
             rdma_port_space port_space) {
  if (channel == nullptr) return CmResult(EINVAL);
  if (port_space != RDMA_PS_TCP) return CmResult(EPROTONOSUPPORT);
  Fabric* fabric = EventChannel::From(channel)->fabric;
  const std::lock_guard lock(fabric->mutex);
  Id* id = fabric->ids.Add(std::make_unique<Id>());
  id->channel = channel;
  id->context = context;
  id->ps = port_space;
  id->qp_type = IBV_QPT_RC;
  id->fabric = fabric;
  *raw = id;
  return 0;
}

int DestroyId(rdma_cm_id* raw) {
  Id* id = Id::From(raw);
  Fabric* fabric = id->fabric;
  const std::lock_guard lock(fabric->mutex);
  SLUICE_CHECK(id->qp == nullptr);        // destroy_qp comes first
  SLUICE_CHECK(id->unacked_events == 0);  // would hang for ever
  if (id->state == IdState::kListening || id->pending_requests > 0) {
    RejectPending(id);
  }
  LeavePeer(id);
  RemoveEventsOf(id);
  fabric->ids.Remove(id);
  Settle(fabric);
  return 0;
}

int SetOption(rdma_cm_id* raw, int level, int name, void* value,
              size_t value_bytes) {
  Id* id = Id::From(raw);
  const std::lock_guard lock(id->fabric->mutex);
  if (level != RDMA_OPTION_ID) return CmResult(ENOSYS);
  const bool is_byte =
      name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT;
  if (is_byte) return CmResult(value_bytes == 1 ? 0 : EINVAL);
  if (value_bytes != sizeof(int)) return CmResult(EINVAL);
  if (name == RDMA_OPTION_ID_REUSEADDR) {
    id->reuse_address = *static_cast<int*>(value) != 0;
    return 0;
  }
  if (name == RDMA_OPTION_ID_AFONLY && id->state == IdState::kIdle) {
    id->family_only = *static_cast<int*>(value) != 0;
    return 0;
  }
  return CmResult(EINVAL);
}

int BindAddr(rdma_cm_id* raw, sockaddr* address) {
  Id* id = Id::From(raw);
  const std::lock_guard lock(id->fabric->mutex);
  if (id->state != IdState::kIdle) return CmResult(EINVAL);
  return CmResult(BindSource(id, address));
}

int ResolveAddr(rdma_cm_id* raw, sockaddr* source, sockaddr* destination,
                int /*timeout_ms*/) {
  Id* id = Id::From(raw);
  const std::lock_guard lock(id->fabric->mutex);
  if (AddressSize(destination) == 0) return CmResult(EAFNOSUPPORT);
  if (source != nullptr) {
    if (id->state != IdState::kIdle) return CmResult(EINVAL);
    const int error = BindSource(id, source);
    if (error != 0) return CmResult(error);
  }
  if (id->state != IdState::kIdle && id->state != IdState::kBound) {
    return CmResult(EINVAL);
  }
  const Device* device = FindDevice(id->fabric, destination);
  if (device == nullptr || device->present == nullptr) {
    PushEvent(id, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH);
    return 0;
  }
  if (id->verbs == nullptr) {
    const int error = BindLike(id, destination);
    if (error != 0) return CmResult(error);
  }
  if (id->device_context()->removed) return CmResult(ENODEV);
  CopyAddress(&id->route.addr.dst_storage, destination);
  id->state = IdState::kAddressResolved;
  PushEvent(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
  return 0;
}

int ResolveRoute(rdma_cm_id* raw, int /*timeout_ms*/) {
  Id* id = Id::From(raw);
  const std::lock_guard lock(id->fabric->mutex);
  if (id->state != IdState::kAddressResolved) return CmResult(EINVAL);
  id->state = IdState::kRouteResolved;
  PushEvent(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
  return 0;
}

int Listen(rdma_cm_id* raw, int backlog) {
  Id* id = Id::From(raw);
  const std::lock_guard lock(id->fabric->mutex);
  if (id->state == IdState::kIdle) {
    sockaddr_in any = {};
    any.sin_family = AF_INET;
    const int error = BindSource(id, reinterpret_cast<sockaddr*>(&any));
    if (error != 0) return CmResult(error);
  }
  if (id->state != IdState::kBound) return CmResult(EINVAL);
  id->reuse_address = false;  // only one of those that share a port
  if (HasConflict(id)) return CmResult(EADDRINUSE);
  id->backlog = backlog;
  id->state = IdState::kListening;
  return 0;
}

__be16 GetSrcPort(rdma_cm_id* raw) {
  Id* id = Id::From(raw);
  const std::lock_guard lock(id->fabric->mutex);
  if (id->state == IdState::kIdle) return 0;
  return htons(PortOf(id->source()));
}

}  // namespace sluice::fake
