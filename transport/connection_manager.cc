#include "transport/connection_manager.h"

#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/async.h"
#include "core/check.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "transport/limits.h"
#include "transport/listener.h"

namespace sluice::transport {
namespace {

// What a failing bind or listen means to who typed the address.
absl::Status ListenError(int error, const ListenAddress& address,
                         const char* call) {
  const std::string text = address.ToString();
  switch (error) {
    case EADDRNOTAVAIL:
      return absl::NotFoundError(absl::StrCat(
          "cannot listen on ", text, ": no such address on this machine"));
    case ENODEV:
      return absl::NotFoundError(absl::StrCat(
          "cannot listen on ", text,
          ": no RDMA device carries this address (see: rdma link)"));
    case EADDRINUSE:
      return absl::AlreadyExistsError(
          absl::StrCat("cannot listen on ", text,
                       ": the port is in use (another sluiced, or nvmet?)"));
    default:
      return absl::ErrnoToStatus(
          error, absl::StrCat("cannot listen on ", text, ": ", call));
  }
}

std::string Share(uint8_t halvings) {
  return absl::StrCat("1/", uint32_t{1} << halvings);
}

}  // namespace

ConnectionManager::ConnectionManager(Reactor* reactor, const VerbsApi& api,
                                     const ConnectionManagerOptions& options,
                                     std::vector<Shard*> shards,
                                     ConnectionOwner* owner)
    : reactor_(reactor),
      api_(api),
      options_(options),
      shards_(std::move(shards)),
      owner_(owner),
      shares_(shards_.size()) {}

ConnectionManager::~ConnectionManager() { SLUICE_CHECK(channel_ == nullptr); }

absl::Status ConnectionManager::Open() {
  SLUICE_ASSIGN_OR_RETURN(channel_, CmChannel::Create(reactor_, api_));
  return absl::OkStatus();
}

Task<absl::Status> ConnectionManager::Listen(ListenAddress* address) {
  auto listener = std::make_unique<Listener>(this, *address);
  absl::Status status = OpenListener(listener.get());
  if (!status.ok()) co_return status;
  listeners_.push_back(std::move(listener));
  Listener* made = listeners_.back().get();
  status = co_await AddDevicesOf(made);
  if (!status.ok()) co_return status;
  *address = made->address;
  addresses_.push_back(made->address);
  co_return absl::OkStatus();
}

absl::Status ConnectionManager::OpenListener(Listener* listener) {
  rdma_cm_id* id = nullptr;
  if (api_.create_id(channel_->channel(), &id, static_cast<CmSink*>(listener),
                     RDMA_PS_TCP) != 0) {
    return ListenError(errno, listener->address, "rdma_create_id");
  }
  if (listener->address.address.ss_family == AF_INET6) {
    int only = 1;
    api_.set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only,
                    sizeof(only));
  }
  const char* call = "rdma_bind_addr";
  int rc = api_.bind_addr(
      id, reinterpret_cast<sockaddr*>(&listener->address.address));
  if (rc == 0) {
    call = "rdma_listen";
    rc = api_.listen(id, options_.backlog);
  }
  if (rc != 0) {
    const int error = errno;
    api_.destroy_id(id);
    return ListenError(error, listener->address, call);
  }
  listener->id = id;
  listener->address.set_port(ntohs(api_.get_src_port(id)));
  return absl::OkStatus();
}

Task<absl::Status> ConnectionManager::AddDevicesOf(Listener* listener) {
  if (!listener->wildcard()) {
    absl::Status status = co_await AddDevice(listener->id->verbs);
    co_return status;
  }
  int count = 0;
  ibv_context** list = api_.get_devices(&count);
  if (list == nullptr || count == 0) {
    if (list != nullptr) api_.free_devices(list);
    co_return absl::NotFoundError("no RDMA device (see: rdma link)");
  }
  absl::Status status;
  for (int i = 0; i < count && status.ok(); ++i) {
    status = co_await AddDevice(list[i]);
  }
  api_.free_devices(list);
  co_return status;
}

Task<absl::Status> ConnectionManager::AddDevice(ibv_context* context) {
  for (const auto& device : devices_) {
    if (device->context == context) co_return absl::OkStatus();
  }
  absl::StatusOr<DeviceTraits> traits = QueryTraits(api_, context);
  if (!traits.ok()) co_return traits.status();
  for (Shard* shard : shards_) {
    const auto add = [shard, context, &traits] {
      absl::Status opened = shard->OpenChannel();
      if (!opened.ok()) return opened;
      return shard->AddDevice(context, *traits);
    };
    CallOn call(shard->reactor(), add);
    absl::Status status = co_await call;
    if (!status.ok()) co_return status;
  }
  devices_.push_back(std::make_unique<Device>(this, context, *traits));
  Device* device = devices_.back().get();
  device->watch =
      reactor_->ring()->Watch(context->async_fd, &OnAsyncEvent, device);
  SLUICE_LOG(kInfo) << "device ready" << KV("device", traits->name)
                    << KV("kind", traits->iwarp ? "iWARP" : "RoCE/IB")
                    << KV("cq_entries_max", traits->cq_entries_max)
                    << KV("read_depth_max", traits->read_depth_max);
  co_return absl::OkStatus();
}

// --- connection requests ---

void ConnectionManager::Listener::OnCmEvent(const rdma_cm_event& event) {
  switch (event.event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      manager_->OnRequest(event);
      return;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
    case RDMA_CM_EVENT_ADDR_CHANGE:
      manager_->OnListenerLost(this);
      return;
    default:
      SLUICE_LOG(kWarning) << "unexpected event on a listener"
                           << KV("event", static_cast<int>(event.event))
                           << KV("status", event.status);
      return;
  }
}

void ConnectionManager::OnRequest(const rdma_cm_event& event) {
  ++stats_.requests;
  nvme::ConnectRequest request;
  const nvme::RejectReason reason = Check(event, &request);
  if (reason != nvme::RejectReason::kNone) {
    SLUICE_LOG(kInfo) << "connection request rejected"
                      << KV("why", nvme::RejectReasonName(reason))
                      << KV("qid", request.qid)
                      << KV("hsqsize", request.hsqsize);
    if (reason == nvme::RejectReason::kNoResources) {
      ++stats_.no_resources;
    } else {
      ++stats_.rejected;
    }
    RejectRequest(api_, event.id, reason);
    return;
  }
  auto* ticket = new Ticket;
  ticket->manager = this;
  ticket->id = event.id;
  ticket->request = request;
  ticket->read_depth = event.param.conn.initiator_depth;
  std::memcpy(&ticket->local, rdma_get_local_addr(event.id),
              sizeof(sockaddr_storage));
  std::memcpy(&ticket->peer, rdma_get_peer_addr(event.id),
              sizeof(sockaddr_storage));
  Adapt(ticket);
  ticket->shard_index = PickShard();
  ticket->shard = shards_[ticket->shard_index];
  ticket->share =
      request.queue_depth() * ticket->shard->options().cq_depth_factor;
  shares_[ticket->shard_index] += ticket->share;
  ++connections_;
  ++stats_.accepted;
  event.id->context = nullptr;
  ticket->run = [](Message* message) {
    auto* self = static_cast<Ticket*>(message);
    self->shard->Accept(self);
  };
  ticket->shard->reactor()->Post(ticket);
}

void ConnectionManager::Adapt(Ticket* ticket) {
  ticket->halvings = advice_.For(ticket->peer, reactor_->now_nanos());
  if (ticket->halvings == Halvings()) return;
  ++stats_.adapted;
  SLUICE_LOG(kInfo) << "connection with fewer transfers at a time, for what "
                       "this peer could not take before"
                    << KV("peer", AddressText(ticket->peer))
                    << KV("qid", ticket->request.qid)
                    << KV("sends", Share(ticket->halvings.sends))
                    << KV("reads", Share(ticket->halvings.reads));
}

void ConnectionManager::NoteTrouble(const Ticket& ticket) {
  if (ticket.trouble == Trouble::kNone) return;
  const Halvings next = advice_.Note(ticket.peer, ticket.trouble,
                                     ticket.halvings, reactor_->now_nanos());
  SLUICE_LOG(kWarning) << "a peer could not take what was in flight, its next "
                          "connections get less at a time"
                       << KV("peer", AddressText(ticket.peer))
                       << KV("qid", ticket.request.qid)
                       << KV("trouble", TroubleName(ticket.trouble))
                       << KV("sends", Share(next.sends))
                       << KV("reads", Share(next.reads));
}

// The order of [spec §1.7].
nvme::RejectReason ConnectionManager::Check(const rdma_cm_event& event,
                                            nvme::ConnectRequest* request) {
  const auto* data =
      static_cast<const std::byte*>(event.param.conn.private_data);
  const size_t bytes = data != nullptr ? event.param.conn.private_data_len : 0;
  nvme::ConnectRequestLimits limits;
  limits.qid_max = options_.qid_max;
  limits.admin_depth_max = options_.admin_depth_max;
  limits.io_depth_max = options_.io_depth_max;
  const nvme::RejectReason reason = nvme::DecodeConnectRequest(
      absl::MakeConstSpan(data, bytes), limits, request);
  if (reason != nvme::RejectReason::kNone) return reason;
  if (event.param.conn.initiator_depth == 0) {
    return nvme::RejectReason::kInvalidIrd;
  }
  if (request->qid != 0 && request->cntlid != 0 &&
      !owner_->KnowsController(request->cntlid)) {
    return nvme::RejectReason::kInvalidCntlid;
  }
  if (!accepting_ || connections_ >= options_.queues_max) {
    return nvme::RejectReason::kNoResources;
  }
  return nvme::RejectReason::kNone;
}

// The one with the least of its ledger given out.
size_t ConnectionManager::PickShard() const {
  const auto least = std::min_element(shares_.begin(), shares_.end());
  return static_cast<size_t>(least - shares_.begin());
}

void ConnectionManager::OnTicketBack(Message* message) {
  std::unique_ptr<Ticket> ticket(static_cast<Ticket*>(message));
  ConnectionManager* self = ticket->manager;
  self->shares_[ticket->shard_index] -= ticket->share;
  SLUICE_CHECK(self->connections_ > 0);
  --self->connections_;
  self->NoteTrouble(*ticket);
  if (ticket->rejected) {
    ++self->stats_.no_resources;
    --self->stats_.accepted;
  } else {
    ++self->stats_.closed;
  }
}

// --- the end ---

Task<void> ConnectionManager::Close() {
  accepting_ = false;
  closing_ = true;
  SLUICE_CHECK(connections_ == 0);
  co_await scope_.Close();
  for (const auto& listener : listeners_) {
    if (listener->id != nullptr) api_.destroy_id(listener->id);
    listener->id = nullptr;
  }
  for (const auto& device : devices_) {
    if (device->watch != nullptr) reactor_->ring()->Unwatch(device->watch);
    for (Shard* shard : shards_) {
      ibv_context* context = device->context;
      const auto remove = [shard, context] {
        return shard->RemoveDevice(context);
      };
      CallOn call(shard->reactor(), remove);
      const bool removed = co_await call;
      SLUICE_CHECK(removed);
    }
  }
  devices_.clear();
  for (Shard* shard : shards_) {
    const auto close_channel = [shard] { shard->CloseChannel(); };
    CallOn call(shard->reactor(), close_channel);
    co_await call;
  }
  channel_.reset();
}

}  // namespace sluice::transport
