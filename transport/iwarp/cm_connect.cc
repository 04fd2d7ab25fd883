// The active side, and what both sides do when they have agreed.
#include <netinet/in.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/check.h"
#include "core/log.h"
#include "transport/iwarp/calls.h"
#include "transport/iwarp/cm.h"
#include "transport/iwarp/deadline.h"
#include "transport/iwarp/faults.h"
#include "transport/iwarp/options.h"

namespace sluice::iwarp {
namespace {

// The end of a connection wakes who waits for nothing else. The watch goes with
// the socket.
constexpr uint32_t kEndEvents = EPOLLRDHUP | EPOLLET;

rdma_cm_event_type EventOf(int error) {
  switch (error) {
    case ECONNRESET:
    case ECONNREFUSED:
      return RDMA_CM_EVENT_REJECTED;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return RDMA_CM_EVENT_UNREACHABLE;
    default:
      return RDMA_CM_EVENT_CONNECT_ERROR;
  }
}

void GiveUp(Id* id, int error, absl::Span<const std::byte> data) {
  CloseSocket(&id->socket);
  id->state = IdState::kDisconnected;
  CmEvent* event = NewEvent(id, id, EventOf(error), -error);
  SetEventData(event, data);
  PushEvent(event);
}

// A socket for the id, bound where the program wants it.
int OpenSocket(Id* id) {
  const int fd = socket(id->route.addr.dst_addr.sa_family,
                        SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_storage source;
  std::memcpy(&source, &id->route.addr.src_addr, sizeof(source));
  // An address without a port: each connection has its own.
  if (bind(fd, reinterpret_cast<sockaddr*>(&source),
           AddressBytes(&id->route.addr.src_addr)) == 0) {
    return fd;
  }
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

void ForgetPort(sockaddr* address) {
  if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = 0;
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = 0;
  }
}

// Begins TCP's part. 0 or an errno.
int StartTcp(Id* id) {
  if (id->socket.fd < 0) {
    id->socket.fd = OpenSocket(id);
    id->port_is_tcps = true;
  }
  if (id->socket.fd < 0) return errno;
  TuneSocket(id->socket.fd, id->type_of_service);
  const sockaddr* to = &id->route.addr.dst_addr;
  if (connect(id->socket.fd, to, AddressBytes(to)) != 0 &&
      errno != EINPROGRESS) {
    return errno;
  }
  id->socket.kind = CmSocket::Kind::kActive;
  id->socket.text_bytes = 0;
  id->connected_tcp = false;
  if (!WatchSocket(&id->socket, EPOLLOUT)) return errno;
  SetSocketDeadline(&id->socket, DeadlineAfter(GetOptions().connect_timeout));
  return 0;
}

void OnTcpConnected(Id* id) {
  int error = 0;
  socklen_t bytes = sizeof(error);
  getsockopt(id->socket.fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
  if (error != 0) {
    GiveUp(id, error, {});
    return;
  }
  bytes = sizeof(sockaddr_storage);
  getsockname(id->socket.fd, &id->route.addr.src_addr, &bytes);
  std::byte text[kMpaFrameMax];
  const size_t length = EncodeMpa(id->sent, text);
  const ssize_t sent =
      send(id->socket.fd, text, length, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(length)) {
    GiveUp(id, sent < 0 ? errno : EPROTO, {});
    return;
  }
  id->connected_tcp = true;
  RewatchSocket(&id->socket, EPOLLIN);
  SetSocketDeadline(&id->socket, DeadlineAfter(GetOptions().reply_timeout));
}

// A peer that knows revision 1 alone hangs up on a request of revision 2; it
// is asked again [iwarp §1.3].
bool RetryRevision1(Id* id) {
  if (id->sent.revision < 2 || id->socket.text_bytes > 0) return false;
  CloseSocket(&id->socket);
  // The last connection may have that port for a while yet.
  if (id->port_is_tcps) ForgetPort(&id->route.addr.src_addr);
  id->sent.revision = 1;
  id->sent.enhanced = false;
  id->sent.peer_to_peer = false;
  return StartTcp(id) == 0;
}

void EndByTerminate(Id* id, const TerminateReason& reason) {
  std::byte text[kTerminateMax + 8] = {};
  const uint32_t bytes = PutTerminate(text, reason, nullptr, 0);
  uint32_t end = bytes + FpduPad(bytes - kFpduLengthBytes);
  if (id->stream.crc) {
    Crc32c crc;
    crc.Add(text, end);
    const uint32_t value = crc.value();
    std::memcpy(text + end, &value, sizeof(value));
  }
  end += kCrcBytes;
  send(id->socket.fd, text, end, MSG_DONTWAIT | MSG_NOSIGNAL);
  GiveUp(id, EPROTO, {});
}

void OnReply(Id* id, const MpaFrame& reply) {
  if (reply.rejected) {
    GiveUp(id, ECONNREFUSED, reply.user());
    return;
  }
  // Markers were not asked for, and are not made; a reply is as the request.
  if (reply.markers || reply.enhanced != id->sent.enhanced) {
    GiveUp(id, EPROTO, {});
    return;
  }
  StreamOptions* stream = &id->stream;
  stream->crc = reply.crc || id->sent.crc;
  if (reply.enhanced) {
    if (reply.ord != kDepthUnchanged && reply.ord > stream->ird) {
      if (reply.ord > kReadDepthMax) {
        EndByTerminate(id, kMpaIrd);
        return;
      }
      stream->ird = reply.ord;
    }
    if (reply.ird != kDepthUnchanged) {
      stream->ord = std::min<uint32_t>(stream->ord, reply.ird);
    }
    if (reply.peer_to_peer && id->sent.peer_to_peer) {
      stream->send_rtr_write = reply.rtr_write;
      stream->send_rtr_read = !reply.rtr_write && reply.rtr_read;
      if (!stream->send_rtr_write && !stream->send_rtr_read) {
        EndByTerminate(id, kMpaRtr);
        return;
      }
      if (stream->send_rtr_read) stream->ord = std::max(stream->ord, 1u);
    }
  }
  if (!Establish(id)) {
    GiveUp(id, errno, {});
    return;
  }
  CmEvent* event = NewEvent(id, id, RDMA_CM_EVENT_ESTABLISHED, 0);
  // This way round, as the kernel's connection manager has it for iWARP.
  event->param.conn.initiator_depth = static_cast<uint8_t>(stream->ird);
  event->param.conn.responder_resources = static_cast<uint8_t>(stream->ord);
  SetEventData(event, reply.user());
  PushEvent(event);
}

}  // namespace

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
  return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

// This machine's own addresses go over its loopback, too.
bool WantsCrc(const Id& id) {
  switch (GetOptions().crc) {
    case CrcPolicy::kOn:
      return true;
    case CrcPolicy::kOff:
      return false;
    case CrcPolicy::kAuto:
      break;
  }
  const sockaddr* to = &id.route.addr.dst_addr;
  if (IsLoopback(to)) return false;
  const sockaddr* from = &id.route.addr.src_addr;
  if (from->sa_family != to->sa_family) return true;
  if (to->sa_family == AF_INET) {
    return std::memcmp(&reinterpret_cast<const sockaddr_in*>(from)->sin_addr,
                       &reinterpret_cast<const sockaddr_in*>(to)->sin_addr,
                       sizeof(in_addr)) != 0;
  }
  return std::memcmp(&reinterpret_cast<const sockaddr_in6*>(from)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(to)->sin6_addr,
                     sizeof(in6_addr)) != 0;
}

bool DepthsOf(const rdma_conn_param* param, uint32_t* ird, uint32_t* ord) {
  const auto depth = [](uint8_t wanted) {
    return wanted == UINT8_MAX ? uint32_t{kReadDepthMax} : uint32_t{wanted};
  };
  *ird = depth(param->responder_resources);
  *ord = depth(param->initiator_depth);
  return *ird <= kReadDepthMax && *ord <= kReadDepthMax;
}

Qp* ChooseQp(Id* id, const rdma_conn_param* param) {
  id->qp_number = param != nullptr ? param->qp_num : 0;
  if (id->qp != nullptr) id->qp_number = id->qp->qp_num;
  return QpOf(*id);
}

Qp* QpOf(const Id& id) { return Device::Get().FindQp(id.qp_number); }

bool Establish(Id* id, absl::Span<const std::byte> first) {
  Qp* qp = QpOf(*id);
  if (qp == nullptr) {  // destroyed while it connected
    errno = EINVAL;
    return false;
  }
  const int fd = id->socket.fd;
  UnwatchSocket(&id->socket);
  // Before it may be closed, which is as soon as it is the queue pair's.
  WatchSocket(&id->socket, kEndEvents);
  id->stream.id_serial = id->socket.serial;
  if (!AttachStream(qp, fd, id->stream, first)) {
    const int error = errno;
    UnwatchSocket(&id->socket);
    errno = error;
    return false;
  }
  id->state = IdState::kConnected;
  id->socket.kind = CmSocket::Kind::kEstablished;
  id->socket.fd = -1;
  return true;
}

void WatchEnd(Id* id, int fd) {
  id->socket.fd = fd;
  WatchSocket(&id->socket, kEndEvents);
  id->socket.fd = -1;
}

void RewatchEnd(Id* id, EventChannel* channel) {
  Qp* qp = QpOf(*id);
  if (qp == nullptr) return;
  const GroupLock lock(qp->group.get());
  if (qp->fd < 0) return;
  epoll_ctl(id->socket.channel->epoll_fd, EPOLL_CTL_DEL, qp->fd, nullptr);
  id->socket.channel = channel;
  WatchEnd(id, qp->fd);
}

void PushEstablished(Id* id) {
  CmEvent* event = NewEvent(id, id, RDMA_CM_EVENT_ESTABLISHED, 0);
  event->param.conn.initiator_depth = static_cast<uint8_t>(id->stream.ird);
  event->param.conn.responder_resources = static_cast<uint8_t>(id->stream.ord);
  PushEvent(event);
}

void OnActiveReady(Id* id) {
  if (!id->connected_tcp) {
    OnTcpConnected(id);
    return;
  }
  MpaFrame reply;
  const MpaError error = ReadFrame(&id->socket, /*expect_reply=*/true, &reply);
  switch (error) {
    case MpaError::kShort:
      return;
    case MpaError::kNone:
      OnReply(id, reply);
      return;
    case MpaError::kEnded: {
      const int why = errno;
      if (!RetryRevision1(id)) GiveUp(id, why, {});
      return;
    }
    default:
      SLUICE_LOG(kInfo) << "the other end does not speak MPA"
                        << KV("why", MpaErrorName(error));
      GiveUp(id, EPROTO, {});
      return;
  }
}

void OnActiveDeadline(Id* id) { GiveUp(id, ETIMEDOUT, {}); }

namespace {

// There is one, and it can take a stream.
bool CanConnect(Qp* qp) {
  if (qp == nullptr) return false;
  const GroupLock lock(qp->group.get());
  FailIfCqIsDead(qp);
  return qp->live == QpState::kIdle;
}

int StartConnect(Id* id, const rdma_conn_param* param) {
  const std::lock_guard lock(CmMutex());
  rdma_conn_param all = {};
  all.responder_resources = all.initiator_depth = UINT8_MAX;
  const rdma_conn_param* wanted = param == nullptr ? &all : param;
  if (id->state != IdState::kRouted || !CanConnect(ChooseQp(id, param)) ||
      !DepthsOf(wanted, &id->stream.ird, &id->stream.ord)) {
    errno = EINVAL;
    return -1;
  }
  const Options& options = GetOptions();
  MpaFrame* request = &id->sent;
  *request = MpaFrame();
  request->revision = static_cast<uint8_t>(options.mpa_revision);
  request->enhanced = options.mpa_revision >= 2;
  const size_t data_max =
      request->enhanced ? kUserDataMax : kUserDataMaxRevision1;
  if (wanted->private_data_len > data_max) {
    errno = EINVAL;
    return -1;
  }
  request->crc = WantsCrc(*id);
  request->peer_to_peer = request->enhanced && options.peer_to_peer;
  request->rtr_write = request->rtr_read = request->peer_to_peer;
  request->ird = static_cast<uint16_t>(id->stream.ird);
  request->ord = static_cast<uint16_t>(id->stream.ord);
  request->user_bytes = wanted->private_data_len;
  if (wanted->private_data_len > 0) {
    std::memcpy(request->user_data.data(), wanted->private_data,
                wanted->private_data_len);
  }
  id->state = IdState::kConnecting;
  const int error = StartTcp(id);
  if (error == 0) return 0;
  GiveUp(id, error, {});  // an event, as all other ends of it
  return 0;
}

}  // namespace

int Connect(rdma_cm_id* raw, rdma_conn_param* param) {
  const int result = StartConnect(Id::From(raw), param);
  return result == 0 ? Complete(raw) : result;
}

int CmDisconnect(rdma_cm_id* raw) {
  std::shared_ptr<PollGroup> group;
  {
    const std::lock_guard lock(CmMutex());
    Id* id = Id::From(raw);
    const bool was_connected =
        id->state == IdState::kConnected || id->state == IdState::kDisconnected;
    if (!was_connected) {
      errno = EINVAL;
      return -1;
    }
    Qp* qp = QpOf(*id);
    if (qp == nullptr) return 0;
    group = qp->group;
    Disconnect(qp);
    qp->state = IBV_QPS_SQD;
  }
  group->TellNotes();
  return Complete(raw);
}

}  // namespace sluice::iwarp
