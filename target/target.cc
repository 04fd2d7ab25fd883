#include "target/target.h"

#include <unistd.h>

#include <algorithm>

#include "absl/time/clock.h"
#include "core/async.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "nvme/limits.h"
#include "target/core_advice.h"

namespace sluice::target {
namespace {

// How often the backings are asked for their size: a host sees growth within
// this, and what its own rescan takes.
constexpr absl::Duration kSizeInterval = absl::Milliseconds(1400);
// After the commands: what a device may take to flush, and some.
constexpr absl::Duration kCloseLimit = absl::Seconds(3);

transport::ShardOptions ShardOptionsOf(const TargetOptions& options) {
  transport::ShardOptions shard;
  shard.pool_bytes = options.buffer_pool_bytes / options.reactor_count();
  shard.cq_depth_factor = options.cq_depth_factor;
  shard.in_capsule_bytes = options.in_capsule_bytes;
  shard.inline_bytes = options.inline_bytes;
  shard.signal_every = options.signal_every;
  shard.device.shared_receives = options.shared_receives;
  shard.device.shared_depth_max = options.queue_depth;
  shard.device.shared_in_capsule_bytes = options.in_capsule_bytes;
  shard.engine.poll_batch = options.cq_batch;
  shard.engine.ack_batch = options.ack_batch;
  shard.engine.solicited_only = options.solicited_only;
  if (options.completion_vector) {
    shard.device.completion_vector =
        static_cast<int>(*options.completion_vector);
  }
  return shard;
}

// Namespaces in memory, to be sent from without a copy. Registered memory is
// pinned, all of it: up to a quarter of the machine's.
std::vector<absl::Span<std::byte>> LentMemory(
    const std::vector<std::unique_ptr<Subsystem>>& subsystems) {
  std::vector<absl::Span<std::byte>> lent;
  uint64_t left_bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) / 4 *
                        static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (const auto& subsystem : subsystems) {
    for (const Namespace& entry : subsystem->namespaces()) {
      if (entry.backing->geometry().size_bytes > left_bytes) continue;
      const absl::Span<std::byte> memory = entry.backing->Lend();
      if (memory.empty()) continue;
      left_bytes -= memory.size();
      lent.push_back(memory);
    }
  }
  return lent;
}

}  // namespace

Target::Target(const TargetOptions& options, const VerbsApi& api)
    : api_(api), size_timer_(&OnSizeTimer, this) {
  shared_.options = options;
  if (shared_.options.machine_id.empty()) {
    shared_.options.machine_id = ReadMachineId();
  }
  if (shared_.options.listen.empty()) {
    shared_.options.listen.push_back("0.0.0.0");
  }
  // Rises over restarts, and with them what may have changed.
  shared_.discovery_generation =
      static_cast<uint64_t>(absl::ToUnixSeconds(absl::Now()));
  shared_.registry = &registry_;
  shared_.pool = &pool_;
}

Target::~Target() { SLUICE_CHECK(threads_.empty()); }

absl::StatusOr<std::unique_ptr<Target>> Target::Start(
    const TargetOptions& options, const VerbsApi& api) {
  std::unique_ptr<Target> target(new Target(options, api));
  absl::Status status = target->OpenSubsystems();
  if (status.ok()) status = target->StartReactors();
  if (status.ok()) status = target->Listen();
  if (status.ok()) return target;
  target->StopReactors();
  return status;
}

void Target::set_on_device_stuck(
    std::function<void(const std::string&)> callback) {
  threads_.front()->Run([this, &callback] {
    on_device_stuck_ = std::move(callback);
    // A device may have gone before anybody could be told.
    if (!stuck_device_.empty()) on_device_stuck_(stuck_device_);
  });
}

absl::Status Target::OpenSubsystems() {
  for (const SubsystemOptions& wanted : shared_.options.subsystems) {
    SLUICE_ASSIGN_OR_RETURN(
        std::unique_ptr<Subsystem> subsystem,
        Subsystem::Open(wanted, shared_.options.machine_id));
    shared_.subsystems.push_back(std::move(subsystem));
  }
  shared_.subsystems.push_back(
      Subsystem::Discovery(shared_.options.machine_id));
  return absl::OkStatus();
}

absl::Status Target::StartReactors() {
  for (const std::string& advice : CoreAdvice(
           shared_.options.cores, ReadCoreFacts(), shared_.options.spin.mode,
           shared_.options.realtime_priority)) {
    SLUICE_LOG(kWarning) << advice;
  }
  std::vector<int> cores = shared_.options.cores;
  if (cores.empty()) cores.push_back(-1);
  for (size_t i = 0; i < cores.size(); ++i) {
    ReactorOptions options;
    options.index = static_cast<int>(i);
    options.cpu = cores[i];
    options.realtime_priority =
        static_cast<int>(shared_.options.realtime_priority);
    options.spin = shared_.options.SpinOf(i);
    SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<ReactorThread> thread,
                            ReactorThread::Start(options));
    threads_.push_back(std::move(thread));
  }
  shared_.control = threads_.front()->reactor();
  transport::ShardOptions shard_options = ShardOptionsOf(shared_.options);
  if (shared_.options.lend_memory) {
    shard_options.device.lent = LentMemory(shared_.subsystems);
  }
  for (size_t i = 0; i < threads_.size(); ++i) {
    const auto& thread = threads_[i];
    Reactor* reactor = thread->reactor();
    shard_options.device.interrupt_cpu =
        shared_.options.irq_affinity ? cores[i] : -1;
    absl::StatusOr<std::unique_ptr<TargetShard>> shard = thread->Run([&] {
      return TargetShard::Create(reactor, api_, &shared_, shard_options);
    });
    if (!shard.ok()) return shard.status();
    shards_.push_back(*std::move(shard));
  }
  return absl::OkStatus();
}

absl::Status Target::Listen() {
  transport::ConnectionManagerOptions options;
  options.queues_max = shared_.options.max_queues;
  options.io_depth_max = shared_.options.queue_depth;
  options.qid_max = static_cast<uint16_t>(kIoQueuesMax);
  std::vector<transport::Shard*> shards;
  shards.reserve(shards_.size());
  for (const auto& shard : shards_) shards.push_back(shard->transport());
  manager_ = std::make_unique<transport::ConnectionManager>(
      shared_.control, api_, options, shards, this);
  ReactorThread* control = threads_.front().get();
  SLUICE_RETURN_IF_ERROR(control->Run([this] { return manager_->Open(); }));
  for (const std::string& text : shared_.options.listen) {
    SLUICE_ASSIGN_OR_RETURN(
        transport::ListenAddress address,
        transport::ParseListenAddress(text, nvme::kDefaultPort));
    SLUICE_RETURN_IF_ERROR(
        control->RunTask([&] { return manager_->Listen(&address); }));
    shared_.addresses.push_back(address);
  }
  control->Run([this] {
    ArmSizeTimer();
    manager_->StartAccepting();
  });
  return absl::OkStatus();
}

bool Target::Stop() {
  ReactorThread* control = threads_.front().get();
  control->Run([this] {
    stopping_ = true;
    manager_->StopAccepting();
  });
  const bool clean = Drain();
  if (!clean) return false;
  StopReactors();
  return true;
}

bool Target::Drain() {
  const int64_t settled =
      Clock::Real()->NowNanos() +
      absl::ToInt64Nanoseconds(shared_.options.drain_timeout);
  const int64_t closed = settled + absl::ToInt64Nanoseconds(kCloseLimit);
  for (size_t i = 0; i < shards_.size(); ++i) {
    threads_[i]->Run([&] { shards_[i]->Quiesce(); });
  }
  for (size_t i = 0; i < shards_.size(); ++i) {
    threads_[i]->RunTask([&] { return shards_[i]->Settle(settled); });
  }
  for (size_t i = 0; i < shards_.size(); ++i) {
    threads_[i]->Run([&] { shards_[i]->DisconnectAll(); });
  }
  bool clean = true;
  for (size_t i = 0; i < shards_.size(); ++i) {
    clean &= threads_[i]->RunTask([&] { return shards_[i]->Emptied(closed); });
  }
  return clean;
}

// Frees everything in reverse order, each piece on its own reactor.
void Target::StopReactors() {
  if (!threads_.empty()) {
    ReactorThread* control = threads_.front().get();
    control->Run([this] { stopping_ = true; });
    control->RunTask([this]() -> Task<void> { return CloseControl(); });
    for (size_t i = shards_.size(); i-- > 0;) {
      threads_[i]->Run([&] { shards_[i].reset(); });
    }
    shards_.clear();
  }
  threads_.clear();
}

// On the control reactor.
Task<void> Target::CloseControl() {
  shared_.control->CancelTimer(&size_timer_);
  co_await scope_.Close();
  if (manager_ == nullptr) co_return;
  // Tickets of the last connections may still be on their way.
  while (manager_->connections() > 0) {
    SleepFor pause(shared_.control, absl::Milliseconds(1));
    co_await pause;
  }
  co_await manager_->Close();
  manager_.reset();
}

// --- growth of backings ---

void Target::ArmSizeTimer() {
  if (stopping_) return;
  shared_.control->ArmTimer(
      &size_timer_,
      shared_.control->now_nanos() + absl::ToInt64Nanoseconds(kSizeInterval));
}

void Target::OnSizeTimer(void* context) {
  auto* self = static_cast<Target*>(context);
  self->scope_.Spawn(self->CheckSizes());
}

Task<void> Target::CheckSizes() {
  bool any = false;
  for (const auto& subsystem : shared_.subsystems) {
    for (const Namespace& entry : subsystem->namespaces()) {
      const blockdev::Backing* backing = entry.backing.get();
      const blockdev::SizeAnswer answer = backing->size_answer();
      if (answer == blockdev::SizeAnswer::kFixed) continue;
      any = true;
      absl::StatusOr<uint64_t> size = uint64_t{0};
      const auto ask = [backing] { return backing->CurrentSizeBytes(); };
      if (answer == blockdev::SizeAnswer::kMayBlock) {
        CallBlocking call(shared_.pool, ask);
        size = co_await call;
      } else {
        size = ask();
      }
      if (stopping_) co_return;
      if (size.ok()) co_await TellSize(subsystem.get(), entry.nsid, *size);
    }
  }
  if (any) ArmSizeTimer();
}

// Every reactor first, then the hosts: none of them meets the old end.
Task<void> Target::TellSize(const Subsystem* subsystem, uint32_t nsid,
                            uint64_t size_bytes) {
  const TargetShard::Devices* devices = shards_.front()->DevicesOf(subsystem);
  const uint64_t known = (*devices)[nsid - 1]->geometry().size_bytes;
  if (size_bytes <= known) co_return;
  SLUICE_LOG(kInfo) << "namespace has grown"
                    << KV("nqn", subsystem->nqn().view()) << KV("nsid", nsid)
                    << KV("from", known) << KV("to", size_bytes);
  for (const auto& shard : shards_) {
    TargetShard* target = shard.get();
    const auto grow = [target, subsystem, nsid, size_bytes] {
      target->SetSize(subsystem, nsid, size_bytes);
    };
    CallOn call(target->reactor(), grow);
    co_await call;
  }
  for (const auto& shard : shards_) {
    TargetShard* target = shard.get();
    const auto tell = [target, subsystem, nsid] {
      target->TellNamespaceChanged(subsystem, nsid);
    };
    CallOn call(target->reactor(), tell);
    co_await call;
  }
}

bool Target::KnowsController(uint16_t cntlid) {
  return registry_.Find(cntlid) != nullptr;
}

void Target::OnDeviceStuck(const std::string& device) {
  stuck_device_ = device;
  if (on_device_stuck_) on_device_stuck_(device);
}

}  // namespace sluice::target
