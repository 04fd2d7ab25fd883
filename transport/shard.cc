#include "transport/shard.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/check.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "transport/connection_manager.h"

namespace sluice::transport {

absl::StatusOr<std::unique_ptr<Shard>> Shard::Create(
    Reactor* reactor, const VerbsApi& api, const ShardOptions& options,
    ConnectionTaker* taker) {
  std::unique_ptr<Shard> shard(new Shard(reactor, api, options, taker));
  SLUICE_ASSIGN_OR_RETURN(shard->extents_,
                          ExtentPool::Create(reactor, options.pool_bytes));
  return shard;
}

Shard::~Shard() = default;

absl::Status Shard::OpenChannel() {
  if (channel_ != nullptr) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(channel_, CmChannel::Create(reactor_, api_));
  return absl::OkStatus();
}

LocalDevice* Shard::Find(const ibv_context* context) const {
  for (const auto& device : devices_) {
    if (device->context() == context) return device.get();
  }
  return nullptr;
}

absl::Status Shard::AddDevice(ibv_context* context,
                              const DeviceTraits& traits) {
  SLUICE_DCHECK_ON(reactor_);
  if (Find(context) != nullptr) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<LocalDevice> device,
                          LocalDevice::Create(&engine_, api_, context, traits,
                                              extents_.get(), options_.device));
  devices_.push_back(std::move(device));
  return absl::OkStatus();
}

void Shard::BreakDevice(ibv_context* context, const char* why) {
  engine_.BreakAll(
      [context](const QueuePair& qp) {
        return qp.device()->context() == context;
      },
      why);
}

bool Shard::RemoveDevice(ibv_context* context) {
  SLUICE_DCHECK_ON(reactor_);
  LocalDevice* device = Find(context);
  if (device == nullptr) return true;
  if (device->queue_pairs > 0) return false;
  devices_.erase(std::find_if(
      devices_.begin(), devices_.end(),
      [device](const auto& entry) { return entry.get() == device; }));
  return true;
}

void Shard::Accept(Ticket* ticket) {
  SLUICE_DCHECK_ON(reactor_);
  // Events of this connection come to this reactor from now on.
  if (channel_ == nullptr ||
      api_.migrate_id(ticket->id, channel_->channel()) != 0) {
    SLUICE_LOG(kWarning) << "rdma_migrate_id failed"
                         << KV("error", std::strerror(errno));
    RejectNoResources(ticket);
    return;
  }
  LocalDevice* device = Find(ticket->id->verbs);
  if (device == nullptr) {
    SLUICE_LOG(kWarning) << "connection on a device that is not set up";
    RejectNoResources(ticket);
    return;
  }
  QueuePairOptions options;
  options.depth = ticket->request.queue_depth();
  options.cq_depth_factor = options_.cq_depth_factor;
  options.in_capsule_bytes = options_.in_capsule_bytes;
  options.inline_bytes = options_.inline_bytes;
  options.signal_every = options_.signal_every;
  options.read_depth =
      std::min(ticket->read_depth, device->traits().read_depth_max);
  options.read_depth = HalvedReads(options.read_depth, ticket->halvings);
  options.send_limit = HalvedSends(
      (options.cq_depth_factor - 1) * options.depth, ticket->halvings);
  // Admin queues have their own, whatever the others take.
  options.shared_receives = ticket->request.qid != 0;
  absl::StatusOr<std::unique_ptr<QueuePair>> made =
      QueuePair::Create(&engine_, device, ticket->id, options);
  if (!made.ok()) {
    SLUICE_LOG(kWarning) << "connection rejected, no resources"
                         << KV("qid", ticket->request.qid)
                         << KV("depth", options.depth)
                         << KV("why", made.status().message());
    RejectNoResources(ticket);
    return;
  }
  QueuePair* qp = made->get();
  ticket->id->context = static_cast<CmSink*>(qp);
  taker_->OnConnection(this, *std::move(made), *ticket);
  qp->set_ticket(ticket);
  qp->Accept();
}

void Shard::RejectNoResources(Ticket* ticket) {
  RejectRequest(api_, ticket->id, nvme::RejectReason::kNoResources);
  ticket->id = nullptr;
  ticket->rejected = true;
  Return(ticket);
}

void Shard::Return(Ticket* ticket) {
  ticket->run = &ConnectionManager::OnTicketBack;
  ticket->manager->reactor()->Post(ticket);
}

void Shard::OnCqError(const ibv_cq* cq) {
  for (const auto& device : devices_) {
    for (const auto& queue : device->queues()) {
      if (queue->cq.get() == cq)
        engine_.MarkDead(queue.get(), "CQ error event");
    }
  }
}

void Shard::OnQpError(const ibv_qp* qp, const char* what) {
  engine_.BreakAll(
      [qp](const QueuePair& candidate) {
        return candidate.id() != nullptr && candidate.id()->qp == qp;
      },
      what);
}

}  // namespace sluice::transport
