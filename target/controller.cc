#include "target/controller.h"

#include <algorithm>

#include "core/check.h"
#include "core/clock.h"
#include "core/log.h"
#include "target/queue.h"
#include "target/target_shard.h"

namespace sluice::target {
namespace {

// What nvmet gives a discovery controller whose host asked for none.
constexpr uint32_t kDiscoveryKatoMs = 120'000;
// Times are kept in units of KAS, rounded up.
constexpr uint32_t kKatoUnitMs = kKeepAliveUnit100ms * 100;

uint32_t RoundKato(uint32_t kato_ms) {
  return static_cast<uint32_t>(
      std::min<uint64_t>(RoundUp(kato_ms, kKatoUnitMs), UINT32_MAX));
}

// Tells a queue on its own reactor to disconnect. Frees itself.
struct DropQueue : Message {
  IoQueueEntry entry;
  const char* why = "";

  static void Run(Message* message) {
    std::unique_ptr<DropQueue> self(static_cast<DropQueue*>(message));
    Queue* queue = self->entry.shard->FindQueue(self->entry.serial);
    if (queue != nullptr) queue->Disconnect(self->why);
  }
};

}  // namespace

Controller::Controller(TargetShard* shard, Queue* admin_queue,
                       const ControllerInfo& info, uint32_t kato_ms)
    : shard_(shard),
      admin_queue_(admin_queue),
      info_(info),
      kato_ms_(RoundKato(kato_ms)),
      keep_alive_timer_(&OnKeepAliveTimer, this),
      io_queues_gone_(shard->reactor()) {
  if (discovery() && kato_ms_ == 0) kato_ms_ = kDiscoveryKatoMs;
  io_queues_.reserve(info.limits.io_queues_max);
  last_alive_nanos_ = shard_->reactor()->now_nanos();
  ArmKeepAlive();
}

Controller::~Controller() {
  SLUICE_CHECK(io_queues_.empty());
  shard_->reactor()->CancelTimer(&keep_alive_timer_);
}

// --- keep alive ---

void Controller::SetKato(uint32_t kato_ms) {
  kato_ms_ = RoundKato(kato_ms);
  last_alive_nanos_ = shard_->reactor()->now_nanos();
  ArmKeepAlive();
}

void Controller::Touch() { last_alive_nanos_ = shard_->reactor()->now_nanos(); }

void Controller::ArmKeepAlive() {
  Reactor* reactor = shard_->reactor();
  reactor->CancelTimer(&keep_alive_timer_);
  if (kato_ms_ == 0 || failed_ || closing_) return;
  reactor->ArmTimer(&keep_alive_timer_,
                    last_alive_nanos_ + int64_t{kato_ms_} * kNanosPerMilli);
}

// Touch() only notes the time, so that a Keep Alive costs nothing; the timer
// looks how long ago it was.
void Controller::OnKeepAliveTimer(void* context) {
  auto* self = static_cast<Controller*>(context);
  const int64_t silent_nanos =
      self->shard_->reactor()->now_nanos() - self->last_alive_nanos_;
  if (silent_nanos < int64_t{self->kato_ms_} * kNanosPerMilli) {
    self->ArmKeepAlive();
    return;
  }
  ++self->shard_->probe()->keep_alive_expired;
  SLUICE_LOG(kWarning) << "keep alive expired"
                       << KV("cntlid", self->info_.cntlid)
                       << KV("hostnqn", self->info_.hostnqn.view())
                       << KV("kato_ms", self->kato_ms_);
  self->Fail("keep alive expired");
}

// --- queues ---

uint32_t Controller::GrantIoQueues(uint32_t wanted) {
  granted_io_queues_ =
      std::clamp(wanted, uint32_t{1}, info_.limits.io_queues_max);
  return granted_io_queues_;
}

nvme::ConnectOutcome Controller::Attach(const nvme::ConnectCommand& command,
                                        const nvme::ConnectData& data,
                                        const IoQueueEntry& entry) {
  if (discovery()) {
    return nvme::InvalidConnectSqe(nvme::kConnectQidOffset);
  }
  if (closing_ || failed_) {
    return nvme::InvalidConnectData(nvme::kConnectDataCntlidOffset);
  }
  if (!(data.subnqn == subsystem().nqn())) {
    return nvme::InvalidConnectData(nvme::kConnectDataSubnqnOffset);
  }
  if (!(data.hostnqn == info_.hostnqn)) {
    return nvme::InvalidConnectData(nvme::kConnectDataHostnqnOffset);
  }
  if (data.hostid != nvme::HostId{} && data.hostid != info_.hostid) {
    return nvme::InvalidConnectData(nvme::kConnectDataHostidOffset);
  }
  if (!status_.ready || command.qid == 0 || command.qid > granted_io_queues_) {
    return nvme::InvalidConnectSqe(nvme::kConnectQidOffset);
  }
  if (command.queue_depth() > info_.limits.queue_depth_max) {
    return nvme::InvalidConnectSqe(nvme::kConnectSqsizeOffset);
  }
  for (const IoQueueEntry& queue : io_queues_) {
    if (queue.qid == command.qid) {
      return nvme::ConnectOutcome{nvme::kCommandSequenceError.WithDnr(), 0};
    }
  }
  io_queues_.push_back(entry);
  return nvme::ConnectAccepted(info_.cntlid, /*authentication=*/false);
}

void Controller::Detach(uint16_t qid, uint64_t serial) {
  const auto found = std::find_if(
      io_queues_.begin(), io_queues_.end(), [=](const IoQueueEntry& queue) {
        return queue.qid == qid && queue.serial == serial;
      });
  SLUICE_CHECK(found != io_queues_.end());
  io_queues_.erase(found);
  if (closing_ && io_queues_.empty()) io_queues_gone_.Open();
}

void Controller::DropIoQueues(const char* why) {
  for (const IoQueueEntry& entry : io_queues_) {
    auto* message = new DropQueue;
    message->run = &DropQueue::Run;
    message->entry = entry;
    message->why = why;
    entry.shard->reactor()->Post(message);
  }
}

void Controller::Fail(const char* why) {
  if (failed_) return;
  failed_ = true;
  status_.fatal = true;
  DropIoQueues(why);
  if (admin_queue_ != nullptr) admin_queue_->Disconnect(why);
}

void Controller::BeginTeardown(const char* why) {
  admin_queue_ = nullptr;
  if (closing_) return;
  closing_ = true;
  shard_->reactor()->CancelTimer(&keep_alive_timer_);
  AbortEvents();
  DropIoQueues(why);
}

Task<void> Controller::Teardown() {
  BeginTeardown("the association ended");
  if (!io_queues_.empty()) co_await io_queues_gone_.Wait();
  shard_->RemoveController(this);
  Registry* registry = shard_->shared()->registry;
  const uint16_t cntlid = info_.cntlid;
  const auto remove = [registry, cntlid] { registry->Remove(cntlid); };
  CallOn call(shard_->shared()->control, remove);
  co_await call;
}

Task<ControllerCounters> Controller::CollectCounters() {
  ControllerCounters total = counters_;
  const std::vector<IoQueueEntry> queues = io_queues_;  // may change meanwhile
  for (const IoQueueEntry& entry : queues) {
    const auto read = [entry] {
      Queue* queue = entry.shard->FindQueue(entry.serial);
      return queue == nullptr ? ControllerCounters() : queue->counters();
    };
    CallOn call(entry.shard->reactor(), read);
    const ControllerCounters counters = co_await call;
    total.Add(counters);
  }
  co_return total;
}

void ControllerCounters::Add(const ControllerCounters& other) {
  read_bytes += other.read_bytes;
  written_bytes += other.written_bytes;
  read_commands += other.read_commands;
  write_commands += other.write_commands;
  media_errors += other.media_errors;
}

}  // namespace sluice::target
