// Ids: made, bound, resolved, given a queue pair, moved, destroyed.
#include <netinet/in.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/iwarp/calls.h"
#include "transport/iwarp/cm.h"
#include "transport/iwarp/deadline.h"
#include "transport/iwarp/options.h"

namespace sluice::iwarp {
namespace {

bool IsWildcard(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr == 0;
  }
  return IN6_IS_ADDR_UNSPECIFIED(
      &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

void SetPort(sockaddr* address, in_port_t port) {
  if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = port;
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = port;
  }
}

in_port_t PortOf(const sockaddr* address) {
  if (address->sa_family == AF_INET6) {
    return reinterpret_cast<const sockaddr_in6*>(address)->sin6_port;
  }
  return address->sa_family == AF_INET
             ? reinterpret_cast<const sockaddr_in*>(address)->sin_port
             : 0;
}

void SetDevice(Id* id) {
  id->verbs = Device::Get().shared_context()->verbs();
  id->port_num = 1;
}

// 0 or an errno; the socket is the id's then.
int Bind(Id* id, const sockaddr* address) {
  const int family = address->sa_family;
  if (family != AF_INET && family != AF_INET6) return EAFNOSUPPORT;
  const int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (family == AF_INET6) {
    const int only = id->v6_only ? 1 : 0;
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
  }
  if (bind(fd, address, AddressBytes(address)) != 0) {
    const int error = errno;
    close(fd);
    return error;
  }
  id->socket.fd = fd;
  socklen_t bytes = sizeof(sockaddr_storage);
  getsockname(fd, &id->route.addr.src_addr, &bytes);
  if (!IsWildcard(&id->route.addr.src_addr)) SetDevice(id);
  return 0;
}

// The address that this machine would send from. 0 or an errno.
int FindSource(Id* id) {
  const sockaddr* to = &id->route.addr.dst_addr;
  const int fd = socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  int error = 0;
  socklen_t bytes = sizeof(sockaddr_storage);
  if (connect(fd, to, AddressBytes(to)) != 0 ||
      getsockname(fd, &id->route.addr.src_addr, &bytes) != 0) {
    error = errno;
  }
  close(fd);
  SetPort(&id->route.addr.src_addr, 0);
  return error;
}

int Fails(int error) {
  errno = error;
  return -1;
}

ibv_pd* DefaultPd() {
  static ibv_pd* pd = AllocPd(Device::Get().shared_context()->verbs());
  return pd;
}

// A CQ with a channel of its own, as librdmacm makes for who has none.
bool MakeCq(Id* id, uint32_t entries, ibv_comp_channel** channel, ibv_cq** cq) {
  *channel = CreateCompChannel(id->verbs);
  if (*channel == nullptr) return false;
  *cq = CreateCq(id->verbs, static_cast<int>(std::max(entries, 1u)), id,
                 *channel, 0);
  if (*cq != nullptr) return true;
  DestroyCompChannel(*channel);
  *channel = nullptr;
  return false;
}

void DropCqs(Id* id) {
  if (id->owns_recv_cq) {
    DestroyCq(id->recv_cq);
    DestroyCompChannel(id->recv_cq_channel);
    id->recv_cq = nullptr;
    id->recv_cq_channel = nullptr;
    id->owns_recv_cq = false;
  }
  if (id->owns_send_cq) {
    DestroyCq(id->send_cq);
    DestroyCompChannel(id->send_cq_channel);
    id->send_cq = nullptr;
    id->send_cq_channel = nullptr;
    id->owns_send_cq = false;
  }
}

// Events that nobody will fetch.
void DropEvents(Id* id) {
  EventChannel* channel = EventChannel::From(id->channel);
  const std::vector<CmEvent*> dropped =
      channel->events.Extract([id](const CmEvent* event) {
        return event->owner == id || event->rdma_cm_event::id == id;
      });
  for (CmEvent* event : dropped) {
    // A request that was never seen goes with its listener.
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST && event->owner == id) {
      Id* child = Id::From(event->rdma_cm_event::id);
      RefuseRequest(child);
      CmTable::Get().Remove(child->socket.serial);
      delete child;
    }
    delete event;
  }
}

}  // namespace

int CreateId(rdma_event_channel* channel, rdma_cm_id** id, void* context,
             rdma_port_space port_space) {
  if (port_space != RDMA_PS_TCP) return Fails(EPROTONOSUPPORT);
  const bool synchronous = channel == nullptr;
  if (synchronous) {
    channel = CreateEventChannel();
    if (channel == nullptr) return -1;
  }
  auto* made = new Id();
  made->channel = channel;
  made->context = context;
  made->ps = port_space;
  made->qp_type = IBV_QPT_RC;
  made->synchronous = synchronous;
  made->socket.id = made;
  made->socket.channel = EventChannel::From(channel);
  const std::lock_guard lock(CmMutex());
  CmTable::Get().Add(&made->socket);
  *id = made;
  return 0;
}

int DestroyId(rdma_cm_id* raw) {
  Id* id = Id::From(raw);
  if (id->event != nullptr) AckCmEvent(id->event);
  id->event = nullptr;
  EventChannel* own_channel = nullptr;
  {
    std::unique_lock lock(CmMutex());
    // Without an id a connection is nobody's.
    Qp* qp = QpOf(*id);
    const bool has_qp = id->qp != nullptr || id->state == IdState::kConnected;
    if (has_qp && qp != nullptr) Abort(qp);
    while (!id->half_open.empty()) DropHalfOpen(id->half_open.front().get());
    CmTable::Get().Remove(id->socket.serial);
    // Merely closed, it would look like a peer of revision 1 to the other end.
    if (id->state == IdState::kRequested) RefuseRequest(id);
    CloseSocket(&id->socket);
    DropEvents(id);
    WaitForAcks(id, &lock);
    if (id->synchronous) own_channel = id->socket.channel;
  }
  if (own_channel != nullptr) DestroyEventChannel(own_channel);
  delete id;
  return 0;
}

int SetOption(rdma_cm_id* raw, int level, int name, void* value,
              size_t value_bytes) {
  const std::lock_guard lock(CmMutex());
  Id* id = Id::From(raw);
  if (level != RDMA_OPTION_ID) return Fails(ENOSYS);
  int number = 0;
  if (name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT) {
    if (value_bytes != sizeof(uint8_t)) return Fails(EINVAL);
    number = *static_cast<const uint8_t*>(value);
  } else {
    if (value_bytes != sizeof(int)) return Fails(EINVAL);
    std::memcpy(&number, value, sizeof(number));
  }
  switch (name) {
    case RDMA_OPTION_ID_TOS:
      id->type_of_service = static_cast<uint8_t>(number);
      return 0;
    case RDMA_OPTION_ID_REUSEADDR:  // always
      return 0;
    case RDMA_OPTION_ID_AFONLY:
      id->v6_only = number != 0;
      return 0;
    case RDMA_OPTION_ID_ACK_TIMEOUT:  // TCP has its own
      return 0;
    default:
      return Fails(ENOSYS);
  }
}

int BindAddr(rdma_cm_id* raw, sockaddr* address) {
  const std::lock_guard lock(CmMutex());
  Id* id = Id::From(raw);
  if (id->state != IdState::kIdle) return Fails(EINVAL);
  const int error = Bind(id, address);
  if (error != 0) return Fails(error);
  id->state = IdState::kBound;
  return 0;
}

namespace {

int StartResolve(Id* id, const sockaddr* source, const sockaddr* destination) {
  const std::lock_guard lock(CmMutex());
  if (id->state != IdState::kIdle && id->state != IdState::kBound) {
    return Fails(EINVAL);
  }
  if (source != nullptr && id->state == IdState::kIdle) {
    const int error = Bind(id, source);
    if (error != 0) return Fails(error);
    id->state = IdState::kBound;
  }
  std::memcpy(&id->route.addr.dst_addr, destination, AddressBytes(destination));
  const bool bound =
      id->state == IdState::kBound && !IsWildcard(&id->route.addr.src_addr);
  const int error = bound ? 0 : FindSource(id);
  if (error != 0) {
    PushIdEvent(id, RDMA_CM_EVENT_ADDR_ERROR, -error);
    return 0;
  }
  SetDevice(id);
  id->state = IdState::kAddressed;
  PushIdEvent(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
  return 0;
}

}  // namespace

int ResolveAddr(rdma_cm_id* raw, sockaddr* source, sockaddr* destination,
                int /*timeout_ms*/) {
  const int result = StartResolve(Id::From(raw), source, destination);
  return result == 0 ? Complete(raw) : result;
}

int ResolveRoute(rdma_cm_id* raw, int /*timeout_ms*/) {
  {
    const std::lock_guard lock(CmMutex());
    Id* id = Id::From(raw);
    if (id->state != IdState::kAddressed) return Fails(EINVAL);
    id->state = IdState::kRouted;
    PushIdEvent(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
  }
  return Complete(raw);
}

int CmCreateQp(rdma_cm_id* raw, ibv_pd* pd, ibv_qp_init_attr* attr) {
  Id* id = Id::From(raw);
  if (id->qp != nullptr || id->verbs == nullptr) return Fails(EINVAL);
  if (pd == nullptr) pd = id->pd != nullptr ? id->pd : DefaultPd();
  if (pd->context != id->verbs) return Fails(EINVAL);
  ibv_qp_init_attr made = *attr;
  if (made.send_cq == nullptr) {
    if (!MakeCq(id, made.cap.max_send_wr, &id->send_cq_channel, &id->send_cq)) {
      return -1;
    }
    id->owns_send_cq = true;
  } else {
    id->send_cq = made.send_cq;
  }
  made.send_cq = id->send_cq;
  if (made.recv_cq == nullptr) {
    if (!MakeCq(id, made.cap.max_recv_wr, &id->recv_cq_channel, &id->recv_cq)) {
      DropCqs(id);
      return -1;
    }
    id->owns_recv_cq = true;
  } else {
    id->recv_cq = made.recv_cq;
  }
  made.recv_cq = id->recv_cq;
  ibv_qp* qp = CreateQp(pd, &made);
  if (qp == nullptr) {
    const int error = errno;
    DropCqs(id);
    return Fails(error);
  }
  ibv_qp_attr init = {};
  init.qp_state = IBV_QPS_INIT;
  ModifyQp(qp, &init, IBV_QP_STATE);
  attr->cap = made.cap;
  attr->send_cq = made.send_cq;
  attr->recv_cq = made.recv_cq;
  id->pd = pd;
  id->srq = made.srq;
  const std::lock_guard lock(CmMutex());
  id->qp = qp;
  id->qp_number = qp->qp_num;
  return 0;
}

void CmDestroyQp(rdma_cm_id* raw) {
  Id* id = Id::From(raw);
  ibv_qp* qp;
  {
    const std::lock_guard lock(CmMutex());
    qp = id->qp;
    id->qp = nullptr;
    id->qp_number = 0;
  }
  if (qp != nullptr) DestroyQp(qp);
  DropCqs(id);
}

int MigrateId(rdma_cm_id* raw, rdma_event_channel* raw_channel) {
  const bool becomes_synchronous = raw_channel == nullptr;
  if (becomes_synchronous) {
    raw_channel = CreateEventChannel();
    if (raw_channel == nullptr) return -1;
  }
  std::unique_lock lock(CmMutex());
  Id* id = Id::From(raw);
  EventChannel* channel = EventChannel::From(raw_channel);
  EventChannel* before = id->socket.channel;
  if (channel == before) return 0;
  WaitForAcks(id, &lock);
  const bool watched = id->socket.kind == CmSocket::Kind::kListener ||
                       id->socket.kind == CmSocket::Kind::kActive;
  const int64_t deadline = id->socket.deadline_nanos;
  if (watched && id->socket.fd >= 0) {
    UnwatchSocket(&id->socket);
    id->socket.channel = channel;
    WatchSocket(&id->socket,
                id->socket.kind == CmSocket::Kind::kActive && !id->connected_tcp
                    ? EPOLLOUT
                    : EPOLLIN);
  }
  if (id->socket.kind == CmSocket::Kind::kEstablished) RewatchEnd(id, channel);
  id->socket.channel = channel;
  if (deadline != kNever) SetSocketDeadline(&id->socket, deadline);
  id->channel = channel;
  for (const auto& half_open : id->half_open) {
    UnwatchSocket(half_open.get());
    half_open->channel = channel;
    WatchSocket(half_open.get(), EPOLLIN);
    SetSocketDeadline(half_open.get(),
                      DeadlineAfter(GetOptions().request_timeout));
  }
  const std::vector<CmEvent*> moved =
      before->events.Extract([id](const CmEvent* event) {
        return event->owner == id || event->rdma_cm_event::id == id;
      });
  for (CmEvent* event : moved) {
    event->rdma_cm_event::id->channel = channel;
    Id::From(event->rdma_cm_event::id)->socket.channel = channel;
    channel->events.Push(event, /*quietly=*/false);
  }
  if (id->synchronous) DestroyEventChannel(before);
  id->synchronous = becomes_synchronous;
  return 0;
}

__be16 GetSrcPort(rdma_cm_id* id) { return PortOf(&id->route.addr.src_addr); }
__be16 GetDstPort(rdma_cm_id* id) { return PortOf(&id->route.addr.dst_addr); }

}  // namespace sluice::iwarp
