#include "transport/local_device.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/fd.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "transport/cq_engine.h"
#include "transport/interrupts.h"
#include "transport/limits.h"

namespace sluice::transport {

absl::StatusOr<std::unique_ptr<LocalDevice>> LocalDevice::Create(
    CqEngine* engine, const VerbsApi& api, ibv_context* context,
    const DeviceTraits& traits, ExtentPool* extents,
    const LocalDeviceOptions& options) {
  std::unique_ptr<LocalDevice> device(
      new LocalDevice(engine, api, context, traits, options));
  SLUICE_ASSIGN_OR_RETURN(device->memory_,
                          MemoryDomain::Create(api, context, traits, extents));
  device->BorrowMemory();
  device->PlanSharedReceives();
  SLUICE_RETURN_IF_ERROR(device->OpenChannel());
  engine->AddDevice(device.get());
  device->added_ = true;
  return device;
}

// What cannot be registered is copied into extents.
void LocalDevice::BorrowMemory() {
  if (traits_.sends_by_reference()) return;
  for (const absl::Span<std::byte> memory : options_.lent) {
    const absl::Status status = memory_->Borrow(memory);
    if (status.ok()) continue;
    SLUICE_LOG(kWarning) << "memory is copied, it could not be registered"
                         << KV("device", traits_.name)
                         << KV("bytes", memory.size())
                         << KV("why", status.message());
  }
}

void LocalDevice::PlanSharedReceives() {
  if (options_.shared_receives == 0) return;
  // Receives are of the queue pair's own memory there.
  const uint32_t most = traits_.private_read_sinks ? 0 : traits_.srq_wr_max;
  const uint32_t entries =
      std::min({most, options_.cq_entries, traits_.cq_entries_max});
  const uint32_t room =
      entries > kSharedReceivesSpare ? entries - kSharedReceivesSpare : 0;
  shared_count_ = std::min(options_.shared_receives, room);
  if (shared_count_ < options_.shared_depth_max) shared_count_ = 0;
  if (shared_count_ == options_.shared_receives) return;
  SLUICE_LOG(kWarning) << "fewer shared receives than asked for (0: each queue "
                          "has its own)"
                       << KV("device", traits_.name)
                       << KV("wanted", options_.shared_receives)
                       << KV("receives", shared_count_);
}

absl::StatusOr<SharedReceives*> LocalDevice::AdmitShared(uint32_t depth) {
  std::erase_if(shared_, [](const auto& one) { return one->unused(); });
  if (shared_.empty() || shared_.back()->dead()) {
    SLUICE_ASSIGN_OR_RETURN(
        std::unique_ptr<SharedReceives> made,
        SharedReceives::Create(engine_, this, shared_count_,
                               options_.shared_in_capsule_bytes));
    shared_.push_back(std::move(made));
  }
  SharedReceives* shared = shared_.back().get();
  if (shared->Admit(depth)) return shared;
  return absl::ResourceExhaustedError(absl::StrCat(
      "shared receives of ", traits_.name, ": ", shared->stats().admitted,
      " of ", shared->stats().count, " taken, ", depth, " wanted"));
}

void LocalDevice::LeaveShared(SharedReceives* shared, uint32_t depth) {
  shared->Leave(depth);
  std::erase_if(shared_, [](const auto& one) { return one->unused(); });
}

absl::Status LocalDevice::OpenChannel() {
  channel_ = VerbsPtr<ibv_comp_channel>(api_.create_comp_channel(context_),
                                        VerbsDeleter{&api_});
  if (channel_ == nullptr) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("ibv_create_comp_channel ", traits_.name));
  }
  SLUICE_RETURN_IF_ERROR(SetNonBlocking(channel_->fd));
  channel_watch_ = engine_->reactor()->ring()->WatchAsleep(
      channel_->fd, &OnChannelReadable, this);
  return absl::OkStatus();
}

LocalDevice::~LocalDevice() {
  SLUICE_CHECK(queue_pairs == 0);
  shared_.clear();
  if (memory_ == nullptr || !added_) return;
  engine_->RemoveDevice(this);
  if (channel_watch_ != nullptr) {
    engine_->reactor()->ring()->Unwatch(channel_watch_);
  }
  while (TakeEvent()) {  // what is left, to acknowledge all of it
  }
  for (const auto& queue : queues_) engine_->Acknowledge(queue.get());
}

uint64_t LocalDevice::free_entries() const {
  uint64_t free = 0;
  for (const auto& queue : queues_) {
    if (!queue->dead) free += queue->ledger.free();
  }
  const uint64_t per_queue =
      std::min(options_.cq_entries, traits_.cq_entries_max);
  return free + (options_.cq_count_max - queues_.size()) * per_queue;
}

absl::StatusOr<CompletionQueue*> LocalDevice::Reserve(uint32_t entries) {
  for (const auto& queue : queues_) {
    if (!queue->dead && queue->ledger.Reserve(entries)) return queue.get();
  }
  SLUICE_ASSIGN_OR_RETURN(CompletionQueue * queue, AddQueue(entries));
  if (queue->ledger.Reserve(entries)) return queue;
  return absl::ResourceExhaustedError(absl::StrCat("completion queue of ",
                                                   queue->ledger.capacity(),
                                                   " entries for ", entries));
}

absl::StatusOr<CompletionQueue*> LocalDevice::AddQueue(uint32_t entries_min) {
  if (channel_ == nullptr) SLUICE_RETURN_IF_ERROR(OpenChannel());
  const uint32_t entries =
      std::min(options_.cq_entries, traits_.cq_entries_max);
  if (queues_.size() >= options_.cq_count_max || entries < entries_min) {
    return absl::ResourceExhaustedError(
        absl::StrCat("completion queues of ", traits_.name, ": ",
                     queues_.size(), " of ", options_.cq_count_max, " in use"));
  }
  const int wanted = options_.completion_vector >= 0
                         ? options_.completion_vector
                         : engine_->reactor()->index();
  const int vector = wanted % std::max(traits_.completion_vectors, 1);
  auto queue = std::make_unique<CompletionQueue>(
      this, VerbsPtr<ibv_cq>(nullptr, VerbsDeleter{&api_}), 0);
  VerbsPtr<ibv_cq> cq(api_.create_cq(context_, static_cast<int>(entries),
                                     queue.get(), channel_.get(), vector),
                      VerbsDeleter{&api_});
  if (cq == nullptr) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("ibv_create_cq ", traits_.name, " cqe=", entries,
                            " vector=", vector));
  }
  if (options_.interrupt_cpu >= 0 && queues_.empty()) {
    const absl::Status moved =
        MoveInterrupt(traits_.name, vector, options_.interrupt_cpu);
    if (moved.ok()) {
      SLUICE_LOG(kInfo) << "interrupt moved" << KV("device", traits_.name)
                        << KV("vector", vector)
                        << KV("cpu", options_.interrupt_cpu);
    } else {
      SLUICE_LOG(kWarning) << "interrupt not moved"
                           << KV("device", traits_.name) << KV("vector", vector)
                           << KV("because", moved.message());
    }
  }
  // What the device gave, never less than what was asked for.
  queue->ledger = CqLedger(static_cast<uint32_t>(cq->cqe));
  queue->cq = std::move(cq);
  queues_.push_back(std::move(queue));
  SLUICE_LOG(kDebug) << "completion queue" << KV("device", traits_.name)
                     << KV("reactor", engine_->reactor()->index())
                     << KV("cqe", queues_.back()->ledger.capacity());
  return queues_.back().get();
}

bool LocalDevice::AnyArmed() const {
  return std::any_of(queues_.begin(), queues_.end(),
                     [](const auto& queue) { return queue->armed; });
}

// A queue that is not armed announces nothing: without an armed one left, no
// call is spent on learning that the channel is empty.
void LocalDevice::TakeEvents() {
  do {
    if (!TakeEvent()) return;
  } while (AnyArmed());
}

void LocalDevice::OnChannelReadable(void* context) {
  static_cast<LocalDevice*>(context)->TakeEvents();
}

void LocalDevice::OnChannelFailed(int error) {
  ++engine_->recovery()->channel_failures;
  SLUICE_LOG(kError) << "completion channel failed, its queues are rebuilt"
                     << KV("device", traits_.name)
                     << KV("error", std::strerror(error));
  engine_->reactor()->ring()->Unwatch(channel_watch_);
  channel_watch_ = nullptr;
  failed_channels_.push_back(std::move(channel_));
  for (const auto& queue : queues_) {
    engine_->MarkDead(queue.get(), "its completion channel failed");
  }
}

bool LocalDevice::TakeEvent() {
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  if (channel_ == nullptr) return false;
  if (api_.get_cq_event(channel_.get(), &cq, &cq_context) != 0) {
    if (errno != EAGAIN && errno != EINTR) OnChannelFailed(errno);
    return false;
  }
  engine_->OnEvent(static_cast<CompletionQueue*>(cq_context));
  return true;
}

}  // namespace sluice::transport
