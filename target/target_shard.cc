#include "target/target_shard.h"

#include <utility>

#include "core/async.h"
#include "core/check.h"
#include "core/log.h"
#include "core/status_macros.h"

namespace sluice::target {
namespace {

constexpr absl::Duration kDrainStep = absl::Milliseconds(5);

}  // namespace

const Subsystem* TargetShared::Find(const nvme::Nqn& nqn) const {
  for (const auto& subsystem : subsystems) {
    if (subsystem->nqn() == nqn) return subsystem.get();
  }
  return nullptr;
}

absl::StatusOr<std::unique_ptr<TargetShard>> TargetShard::Create(
    Reactor* reactor, const VerbsApi& api, TargetShared* shared,
    const transport::ShardOptions& options) {
  std::unique_ptr<TargetShard> shard(new TargetShard(reactor, shared));
  SLUICE_ASSIGN_OR_RETURN(
      shard->transport_,
      transport::Shard::Create(reactor, api, options, shard.get()));
  SLUICE_RETURN_IF_ERROR(shard->AttachDevices());
  return shard;
}

TargetShard::~TargetShard() { SLUICE_CHECK(queues_.empty()); }

absl::Status TargetShard::AttachDevices() {
  for (const auto& subsystem : shared_->subsystems) {
    Devices devices;
    for (const Namespace& entry : subsystem->namespaces()) {
      SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<blockdev::BlockDevice> device,
                              entry.backing->Attach(reactor_, shared_->pool));
      if (entry.layer) device = entry.layer(std::move(device), reactor_);
      devices.push_back(std::move(device));
    }
    devices_.push_back(std::move(devices));
  }
  return absl::OkStatus();
}

const TargetShard::Devices* TargetShard::DevicesOf(
    const Subsystem* subsystem) const {
  for (size_t i = 0; i < shared_->subsystems.size(); ++i) {
    if (shared_->subsystems[i].get() == subsystem) return &devices_[i];
  }
  return nullptr;
}

void TargetShard::OnConnection(transport::Shard*,
                               std::unique_ptr<transport::QueuePair> qp,
                               const transport::Ticket& ticket) {
  SLUICE_DCHECK_ON(reactor_);
  const uint64_t serial = next_serial_++;
  queues_[serial] =
      std::make_unique<Queue>(this, serial, std::move(qp), ticket);
}

Controller* TargetShard::FindController(uint16_t cntlid) const {
  SLUICE_DCHECK_ON(reactor_);
  const auto found = controllers_.find(cntlid);
  return found == controllers_.end() ? nullptr : found->second;
}

void TargetShard::AddController(Controller* controller) {
  const bool added =
      controllers_.emplace(controller->info().cntlid, controller).second;
  SLUICE_CHECK(added);
}

void TargetShard::RemoveController(Controller* controller) {
  SLUICE_CHECK(controllers_.erase(controller->info().cntlid) == 1);
}

Queue* TargetShard::FindQueue(uint64_t serial) const {
  SLUICE_DCHECK_ON(reactor_);
  const auto found = queues_.find(serial);
  return found == queues_.end() ? nullptr : found->second.get();
}

void TargetShard::OnQueueDown(Queue* queue) { scope_.Spawn(CloseQueue(queue)); }

Task<void> TargetShard::CloseQueue(Queue* queue) {
  co_await queue->Close();
  // Out of the map first: its end may resume others, who look into it.
  queues_.extract(queue->serial());
}

void TargetShard::SetSize(const Subsystem* subsystem, uint32_t nsid,
                          uint64_t size_bytes) {
  (*DevicesOf(subsystem))[nsid - 1]->set_size_bytes(size_bytes);
}

void TargetShard::TellNamespaceChanged(const Subsystem* subsystem,
                                       uint32_t nsid) {
  for (const auto& [cntlid, controller] : controllers_) {
    if (&controller->subsystem() == subsystem) {
      controller->NamespaceChanged(nsid);
    }
  }
}

void TargetShard::Quiesce() {
  for (const auto& [serial, queue] : queues_) queue->Quiesce();
}

Task<void> TargetShard::Settle(int64_t deadline_nanos) {
  while (reactor_->now_nanos() < deadline_nanos) {
    size_t busy = 0;
    for (const auto& [serial, queue] : queues_) busy += queue->busy();
    if (busy == 0) co_return;
    SleepFor pause(reactor_, kDrainStep);
    co_await pause;
  }
}

void TargetShard::DisconnectAll() {
  for (const auto& [serial, queue] : queues_) queue->Disconnect("shutdown");
}

Task<bool> TargetShard::Emptied(int64_t deadline_nanos) {
  // NOLINTNEXTLINE(bugprone-standalone-empty): it is used
  while (!queues_.empty() && reactor_->now_nanos() < deadline_nanos) {
    SleepFor pause(reactor_, kDrainStep);
    co_await pause;
  }
  // NOLINTNEXTLINE(bugprone-standalone-empty): it is used
  co_return queues_.empty();
}

}  // namespace sluice::target
