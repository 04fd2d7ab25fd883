#include "tests/conformance/raw_connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace sluice::conformance {
namespace {

absl::Status CallFailed(absl::string_view call) {
  return absl::ErrnoToStatus(errno, call);
}

absl::StatusOr<sockaddr_storage> ParseAddress(const std::string& text,
                                              uint16_t port) {
  sockaddr_storage storage = {};
  auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
  } else if (inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
  } else {
    return absl::InvalidArgumentError(absl::StrCat("no address: ", text));
  }
  return storage;
}

// libsiw cannot use the queue that lies at this offset of the process's maps.
// The first of all becomes a completion queue which covers it, until the
// process ends (transport/limits.h tells why sluiced needs none).
constexpr int kCoverEntries = 32768;  // of 32 bytes each: 1 MiB

void CoverBadOffset(const VerbsApi& api, ibv_context* context) {
  if (&api != &VerbsApi::System()) return;
  if (context->device->transport_type != IBV_TRANSPORT_IWARP) return;
  static ibv_context* covered = nullptr;
  if (covered == context) return;
  covered = context;
  if (api.create_cq(context, kCoverEntries, nullptr, nullptr, 0) == nullptr) {
    std::fprintf(stderr, "no completion queue of %d entries: %s\n",
                 kCoverEntries, std::strerror(errno));
  }
}

int ResolveMs() {
  return static_cast<int>(absl::ToInt64Milliseconds(Scaled(kWait)));
}

}  // namespace

nvme::RejectReason ConnectAnswer::reason() const {
  nvme::ConnectReject reject;
  if (kind != Kind::kRejected) return nvme::RejectReason::kNone;
  if (!nvme::DecodeConnectReject(private_data, &reject)) {
    return nvme::RejectReason::kNone;
  }
  return reject.reason;
}

std::string ConnectAnswer::text() const {
  switch (kind) {
    case Kind::kEstablished:
      return "established";
    case Kind::kRejected:
      if (reason() == nvme::RejectReason::kNone) return "rejected";
      return absl::StrCat("rejected ", static_cast<uint16_t>(reason()));
    case Kind::kUnreachable:
      return "unreachable";
    case Kind::kSilence:
      return "no answer";
    case Kind::kError:
      return absl::StrCat("local error ", status);
  }
  return "?";
}

absl::StatusOr<std::unique_ptr<RawConnection>> RawConnection::Open(
    const VerbsApi& api, const RawConnectionOptions& options) {
  std::unique_ptr<RawConnection> connection(new RawConnection(api, options));
  SLUICE_RETURN_IF_ERROR(connection->Resolve());
  SLUICE_RETURN_IF_ERROR(connection->MakeQp());
  SLUICE_RETURN_IF_ERROR(connection->PostReceives());
  return connection;
}

RawConnection::RawConnection(const VerbsApi& api,
                             const RawConnectionOptions& options)
    : api_(api), options_(options) {}

RawConnection::~RawConnection() {
  if (id_ != nullptr && id_->qp != nullptr) api_.destroy_qp(id_);
  receive_memory_ = nullptr;
  send_memory_ = nullptr;
  if (cq_ != nullptr) SLUICE_CHECK(api_.destroy_cq(cq_) == 0);
  if (completion_channel_ != nullptr) {
    SLUICE_CHECK(api_.destroy_comp_channel(completion_channel_) == 0);
  }
  if (pd_ != nullptr) SLUICE_CHECK(api_.dealloc_pd(pd_) == 0);
  if (id_ != nullptr) SLUICE_CHECK(api_.destroy_id(id_) == 0);
  if (channel_ != nullptr) api_.destroy_event_channel(channel_);
}

absl::Status RawConnection::Resolve() {
  SLUICE_ASSIGN_OR_RETURN(sockaddr_storage address,
                          ParseAddress(options_.address, options_.port));
  channel_ = api_.create_event_channel();
  if (channel_ == nullptr) return CallFailed("rdma_create_event_channel");
  const int flags = fcntl(channel_->fd, F_GETFL);
  SLUICE_CHECK(fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) == 0);
  if (api_.create_id(channel_, &id_, nullptr, RDMA_PS_TCP) != 0) {
    return CallFailed("rdma_create_id");
  }
  auto* destination = reinterpret_cast<sockaddr*>(&address);
  if (api_.resolve_addr(id_, nullptr, destination, ResolveMs()) != 0) {
    return CallFailed("rdma_resolve_addr");
  }
  SLUICE_RETURN_IF_ERROR(AwaitEvent(RDMA_CM_EVENT_ADDR_RESOLVED));
  if (api_.resolve_route(id_, ResolveMs()) != 0) {
    return CallFailed("rdma_resolve_route");
  }
  return AwaitEvent(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

absl::Status RawConnection::MakeQp() {
  CoverBadOffset(api_, id_->verbs);
  pd_ = api_.alloc_pd(id_->verbs);
  if (pd_ == nullptr) return CallFailed("ibv_alloc_pd");
  const uint32_t entries = options_.send_count + options_.receive_count + 1;
  if (options_.has_channel) {
    completion_channel_ = api_.create_comp_channel(id_->verbs);
    if (completion_channel_ == nullptr) {
      return CallFailed("ibv_create_comp_channel");
    }
  }
  cq_ = api_.create_cq(id_->verbs, static_cast<int>(entries), nullptr,
                       completion_channel_, 0);
  if (cq_ == nullptr) return CallFailed("ibv_create_cq");
  ibv_qp_init_attr attr = {};
  attr.send_cq = cq_;
  attr.recv_cq = cq_;
  attr.qp_type = IBV_QPT_RC;
  attr.cap.max_send_wr = options_.send_count;
  attr.cap.max_recv_wr = options_.receive_count;
  attr.cap.max_send_sge = 1;
  attr.cap.max_recv_sge = 1;
  if (api_.create_qp(id_, pd_, &attr) != 0) return CallFailed("rdma_create_qp");
  return absl::OkStatus();
}

absl::Status RawConnection::PostReceives() {
  SLUICE_ASSIGN_OR_RETURN(
      send_memory_,
      CreateMemory(size_t{options_.send_count} * options_.capsule_bytes_max));
  SLUICE_ASSIGN_OR_RETURN(
      receive_memory_,
      CreateMemory(size_t{options_.receive_count} * nvme::kCqeBytes));
  for (uint32_t i = options_.send_count; i > 0; --i) {
    free_send_slots_.push_back(i - 1);
  }
  for (uint32_t i = 0; i < options_.receive_count; ++i) {
    const int error = PostReceive(i);
    if (error != 0) return absl::ErrnoToStatus(error, "ibv_post_recv");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<RawMemory>> RawConnection::CreateMemory(
    size_t length_bytes) {
  return RawMemory::Create(api_, pd_, length_bytes);
}

bool RawConnection::is_iwarp() const {
  return id_->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
}

ConnectAnswer RawConnection::Connect(absl::Duration wait) {
  const int error = StartConnect();
  if (error != 0) {
    ConnectAnswer answer;
    answer.status = error;
    return answer;
  }
  return WaitConnected(wait);
}

int RawConnection::StartConnect() {
  rdma_conn_param param = {};
  param.private_data = options_.private_data.data();
  param.private_data_len = static_cast<uint8_t>(options_.private_data.size());
  param.responder_resources = options_.responder_resources;
  param.initiator_depth = options_.initiator_depth;
  param.flow_control = 1;
  param.retry_count = 7;
  param.rnr_retry_count = options_.rnr_retry_count;
  return api_.connect(id_, &param) == 0 ? 0 : errno;
}

ConnectAnswer RawConnection::WaitConnected(absl::Duration wait) {
  ConnectAnswer answer;
  Deadline deadline(wait);
  CmSeen seen;
  if (!TakeEvent(&deadline, &seen)) {
    answer.kind = ConnectAnswer::Kind::kSilence;
    return answer;
  }
  answer.status = seen.status;
  answer.private_data = std::move(seen.private_data);
  answer.read_depth = read_depth_ = seen.read_depth;
  switch (seen.type) {
    case RDMA_CM_EVENT_ESTABLISHED:
      answer.kind = ConnectAnswer::Kind::kEstablished;
      break;
    case RDMA_CM_EVENT_REJECTED:
      answer.kind = ConnectAnswer::Kind::kRejected;
      break;
    case RDMA_CM_EVENT_UNREACHABLE:
      answer.kind = ConnectAnswer::Kind::kUnreachable;
      break;
    default:
      answer.kind = ConnectAnswer::Kind::kError;
      break;
  }
  if (!answer.established()) disconnected_ = true;
  return answer;
}

bool RawConnection::TakeEventNow(CmSeen* seen) {
  rdma_cm_event* event = nullptr;
  if (api_.get_cm_event(channel_, &event) != 0) return false;
  seen->type = event->event;
  seen->status = event->status;
  seen->private_data.clear();
  // Devices differ in whose view the event takes; the other field is what we
  // asked for, 0.
  seen->read_depth = std::max(event->param.conn.responder_resources,
                              event->param.conn.initiator_depth);
  const auto* data =
      static_cast<const std::byte*>(event->param.conn.private_data);
  if (data != nullptr) {
    seen->private_data.assign(data, data + event->param.conn.private_data_len);
  }
  SLUICE_CHECK(api_.ack_cm_event(event) == 0);
  return true;
}

bool RawConnection::TakeEvent(Deadline* deadline, CmSeen* seen) {
  while (!TakeEventNow(seen)) {
    if (!deadline->Nap()) return false;
  }
  return true;
}

absl::Status RawConnection::AwaitEvent(rdma_cm_event_type type) {
  Deadline deadline(kWait * 2);
  CmSeen seen;
  if (!TakeEvent(&deadline, &seen)) {
    return absl::DeadlineExceededError(
        absl::StrCat("no connection manager event ", type));
  }
  if (seen.type != type) {
    return absl::UnavailableError(
        absl::StrCat("connection manager event ", seen.type, " status ",
                     seen.status, ", expected ", type));
  }
  return absl::OkStatus();
}

bool RawConnection::ended() {
  PollCompletions();
  CmSeen seen;
  while (TakeEventNow(&seen)) {
    if (seen.type == RDMA_CM_EVENT_DISCONNECTED) Disconnect();
    if (seen.type == RDMA_CM_EVENT_DEVICE_REMOVAL) disconnected_ = true;
  }
  return qp_failed_ || disconnected_;
}

bool RawConnection::WaitEnd(absl::Duration wait) {
  Deadline deadline(wait);
  while (!ended()) {
    if (!deadline.Nap()) return false;
  }
  return true;
}

void RawConnection::Disconnect() {
  disconnected_ = true;
  // EINVAL, when there is nothing to disconnect, is fine.
  (void)api_.disconnect(id_);
}

void RawConnection::DestroyQp() {
  if (id_->qp != nullptr) api_.destroy_qp(id_);
  disconnected_ = true;
}

}  // namespace sluice::conformance
