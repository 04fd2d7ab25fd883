// The passive side: listeners, requests that are still coming in, accepting and
// rejecting. Peers that connect and say nothing cost a descriptor for a while,
// and only so many of them at a time.
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/log.h"
#include "transport/iwarp/calls.h"
#include "transport/iwarp/cm.h"
#include "transport/iwarp/deadline.h"
#include "transport/iwarp/options.h"

namespace sluice::iwarp {
namespace {

// How long a listener rests when nothing can be accepted.
constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);

void AddHalfOpen(Id* listener, int fd) {
  if (listener->half_open.size() >= kHalfOpenMax) {
    DropHalfOpen(listener->half_open.front().get());
  }
  TuneSocket(fd, listener->type_of_service);
  listener->half_open.push_back(std::make_unique<CmSocket>());
  CmSocket* half_open = listener->half_open.back().get();
  half_open->kind = CmSocket::Kind::kHalfOpen;
  half_open->fd = fd;
  half_open->id = listener;
  half_open->channel = listener->socket.channel;
  CmTable::Get().Add(half_open);
  if (!WatchSocket(half_open, EPOLLIN)) {
    DropHalfOpen(half_open);
    return;
  }
  SetSocketDeadline(half_open, DeadlineAfter(GetOptions().request_timeout));
}

// Who waits may stay in the backlog for a while: a listener that is readable,
// and of which nothing can be taken, would be served for ever.
void PauseListener(Id* listener) {
  RewatchSocket(&listener->socket, 0);
  SetSocketDeadline(&listener->socket, DeadlineAfter(kAcceptPause));
}

// Replies to a request that cannot become a connection.
void SendReject(int fd, const MpaFrame& request,
                absl::Span<const std::byte> data) {
  MpaFrame reply;
  reply.reply = true;
  reply.rejected = true;
  reply.revision = request.revision;
  reply.enhanced = request.enhanced;
  reply.crc = request.crc;
  reply.user_bytes = static_cast<uint16_t>(data.size());
  std::copy(data.begin(), data.end(), reply.user_data.begin());
  std::byte text[kMpaFrameMax];
  const size_t bytes = EncodeMpa(reply, text);
  // Where it does not fit a new socket, nobody reads.
  send(fd, text, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
}

// The request is whole: a new id for it.
void Promote(CmSocket* half_open, const MpaFrame& request) {
  Id* listener = half_open->id;
  if (request.markers || listener->requests_waiting >= listener->backlog) {
    // Markers we do not make; others do not either [iwarp §1.8].
    if (request.markers) SendReject(half_open->fd, request, {});
    DropHalfOpen(half_open);
    return;
  }
  auto* id = new Id();
  id->channel = listener->channel;
  id->context = listener->context;
  id->ps = listener->ps;
  id->qp_type = listener->qp_type;
  id->verbs = Device::Get().shared_context()->verbs();
  id->port_num = 1;
  id->state = IdState::kRequested;
  id->got = request;
  id->socket.id = id;
  id->socket.channel = half_open->channel;
  CmTable::Get().Add(&id->socket);
  UnwatchSocket(half_open);
  id->socket.fd = half_open->fd;
  half_open->fd = -1;
  socklen_t bytes = sizeof(sockaddr_storage);
  getsockname(id->socket.fd, &id->route.addr.src_addr, &bytes);
  bytes = sizeof(sockaddr_storage);
  getpeername(id->socket.fd, &id->route.addr.dst_addr, &bytes);
  DropHalfOpen(half_open);

  CmEvent* event = NewEvent(id, listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
  // What this side may have in flight is what the peer can serve. Revision 1
  // says nothing of it: all we can.
  const bool told = request.enhanced;
  const auto depth = [told](uint16_t wire) {
    const bool open = !told || wire == kDepthUnchanged;
    return static_cast<uint8_t>(open ? kReadDepthMax
                                     : std::min<int>(wire, kReadDepthMax));
  };
  event->param.conn.initiator_depth = depth(request.ird);
  event->param.conn.responder_resources = depth(request.ord);
  SetEventData(event, request.user());
  ++listener->requests_waiting;
  PushEvent(event);
}

}  // namespace

void TuneSocket(int fd, uint8_t type_of_service) {
  const auto set = [fd](int level, int name, int value) {
    setsockopt(fd, level, name, &value, sizeof(value));
  };
  constexpr int kProbes = 3;
  constexpr int64_t kSecondsMax = 32767;  // TCP's, of a keep-alive
  const auto dead_seconds = static_cast<int>(std::clamp<int64_t>(
      absl::ToInt64Seconds(GetOptions().dead_peer), kProbes, kSecondsMax));
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, std::max(dead_seconds / 2, 1));
  set(IPPROTO_TCP, TCP_KEEPINTVL, std::max(dead_seconds / (2 * kProbes), 1));
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, dead_seconds * 1000);
  if (type_of_service == 0) return;
  set(IPPROTO_IP, IP_TOS, type_of_service);
  set(IPPROTO_IPV6, IPV6_TCLASS, type_of_service);
}

void OnListenerReadable(Id* listener) {
  for (int i = 0; i < kAcceptBatch; ++i) {
    const int fd = accept4(listener->socket.fd, nullptr, nullptr,
                           SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      AddHalfOpen(listener, fd);
      continue;
    }
    if (errno == EAGAIN) return;
    const bool exhausted = errno == EMFILE || errno == ENFILE ||
                           errno == ENOBUFS || errno == ENOMEM;
    if (!exhausted) continue;  // of that connection only
    if (listener->half_open.empty()) {
      PauseListener(listener);
      return;
    }
    // The oldest that has said nothing gives up its descriptor.
    DropHalfOpen(listener->half_open.front().get());
  }
}

void OnHalfOpenReadable(CmSocket* half_open) {
  MpaFrame request;
  const MpaError error = ReadFrame(half_open, /*expect_reply=*/false, &request);
  if (error == MpaError::kShort) return;
  if (error == MpaError::kNone) {
    Promote(half_open, request);
    return;
  }
  SLUICE_LOG(kDebug) << "a connection was not MPA"
                     << KV("why", MpaErrorName(error));
  if (error == MpaError::kEnhanced) SendReject(half_open->fd, request, {});
  DropHalfOpen(half_open);
}

void OnFirstFpduDeadline(Id* id) {
  Qp* qp = QpOf(*id);
  if (id->state != IdState::kConnected || qp == nullptr) return;
  {
    const GroupLock lock(qp->group.get());
    std::byte waiting;
    if (qp->rx.heard || qp->fd < 0) return;  // the note is on its way
    // Not read yet: that is for who moves the queue pair.
    if (recv(qp->fd, &waiting, 1, MSG_PEEK | MSG_DONTWAIT) > 0) {
      SetSocketDeadline(&id->socket,
                        DeadlineAfter(GetOptions().request_timeout));
      return;
    }
  }
  // As InfiniBand's, whose last message of three does not come.
  id->state = IdState::kDisconnected;
  PushIdEvent(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
  Abort(qp);
}

void ResumeListener(Id* listener) {
  listener->socket.deadline_nanos = kNever;
  RewatchSocket(&listener->socket, EPOLLIN);
}

void DropHalfOpen(CmSocket* half_open) {
  CloseSocket(half_open);
  CmTable::Get().Remove(half_open->serial);
  Id* listener = half_open->id;
  listener->half_open.remove_if(
      [half_open](const auto& entry) { return entry.get() == half_open; });
}

int Listen(rdma_cm_id* raw, int backlog) {
  const std::lock_guard lock(CmMutex());
  Id* id = Id::From(raw);
  if (id->state != IdState::kBound) {
    errno = EINVAL;
    return -1;
  }
  id->backlog = backlog <= 0 ? kBacklogMax : std::min(backlog, kBacklogMax);
  if (listen(id->socket.fd, kBacklogMax) != 0) return -1;
  id->socket.kind = CmSocket::Kind::kListener;
  if (!WatchSocket(&id->socket, EPOLLIN)) return -1;
  id->state = IdState::kListening;
  return 0;
}

namespace {

// The reply to id->got, agreeing on `stream`; the peer's wishes are granted
// where they can be [iwarp §1.3].
bool MakeReply(Id* id, const rdma_conn_param* param, MpaFrame* reply) {
  const MpaFrame& request = id->got;
  uint32_t ird = 0;
  uint32_t ord = 0;
  rdma_conn_param granted = {};
  if (param == nullptr) {
    granted.responder_resources = granted.initiator_depth = UINT8_MAX;
    param = &granted;
  }
  if (!DepthsOf(param, &ird, &ord)) return false;
  if (param->private_data_len > kUserDataMax) return false;
  reply->reply = true;
  reply->revision = request.revision;
  reply->enhanced = request.enhanced;
  reply->crc = request.crc || WantsCrc(*id);
  if (request.enhanced) {
    if (request.ird != kDepthUnchanged) {
      ord = std::min<uint32_t>(ord, request.ird);
    }
    if (request.ord != kDepthUnchanged) {
      ird = std::max<uint32_t>(ird,
                               std::min<uint32_t>(request.ord, kReadDepthMax));
    }
    reply->peer_to_peer = request.peer_to_peer;
    if (request.peer_to_peer) {
      reply->rtr_write = request.rtr_write || !request.rtr_read;
      reply->rtr_read = !reply->rtr_write;
      if (reply->rtr_read) ird = std::max(ird, 1u);
    }
    reply->ird = request.ord == kDepthUnchanged ? kDepthUnchanged
                                                : static_cast<uint16_t>(ird);
    reply->ord = request.ird == kDepthUnchanged ? kDepthUnchanged
                                                : static_cast<uint16_t>(ord);
  }
  reply->user_bytes = param->private_data_len;
  if (param->private_data_len > 0) {
    std::memcpy(reply->user_data.data(), param->private_data,
                param->private_data_len);
  }
  id->stream.passive = true;
  id->stream.crc = reply->crc;
  id->stream.ird = ird;
  id->stream.ord = ord;
  id->stream.tell_first_fpdu = reply->peer_to_peer;
  return true;
}

int SendAccept(Id* id, const rdma_conn_param* param) {
  const std::lock_guard lock(CmMutex());
  MpaFrame reply;
  if (id->state != IdState::kRequested || ChooseQp(id, param) == nullptr ||
      !MakeReply(id, param, &reply)) {
    errno = EINVAL;
    return -1;
  }
  std::byte text[kMpaFrameMax];
  const size_t bytes = EncodeMpa(reply, text);
  // Whatever fails, the request is still there to be rejected.
  if (!Establish(id, absl::MakeConstSpan(text, bytes))) return -1;
  // Where the peer has agreed to speak first, that is when it is established.
  if (id->stream.tell_first_fpdu) {
    SetSocketDeadline(&id->socket, DeadlineAfter(GetOptions().request_timeout));
  } else {
    PushEstablished(id);
  }
  return 0;
}

}  // namespace

int Accept(rdma_cm_id* raw, rdma_conn_param* param) {
  const int result = SendAccept(Id::From(raw), param);
  return result == 0 ? Complete(raw) : result;
}

void RefuseRequest(Id* id) {
  SendReject(id->socket.fd, id->got, {});
  CloseSocket(&id->socket);
}

int Reject(rdma_cm_id* raw, const void* private_data,
           uint8_t private_data_bytes) {
  const std::lock_guard lock(CmMutex());
  Id* id = Id::From(raw);
  if (id->state != IdState::kRequested || private_data_bytes > kUserDataMax) {
    errno = EINVAL;
    return -1;
  }
  SendReject(id->socket.fd, id->got,
             absl::MakeConstSpan(static_cast<const std::byte*>(private_data),
                                 private_data_bytes));
  CloseSocket(&id->socket);
  id->state = IdState::kDisconnected;
  return 0;
}

}  // namespace sluice::iwarp
