#include "tools/bench/cq/cq_server.h"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/async.h"
#include "core/check.h"
#include "core/reactor_thread.h"
#include "core/status_macros.h"
#include "nvme/sqe.h"
#include "tools/bench/cq/control.h"
#include "tools/bench/cq/side_cost.h"
#include "transport/connection_manager.h"
#include "transport/shard.h"

namespace sluice::bench {
namespace {

using Json = nlohmann::json;

constexpr absl::Duration kFlushLimit = absl::Seconds(2);
constexpr uint32_t kDepthMax = 1024;

class EchoShard;

// One queue pair: every capsule is answered at once.
class EchoQueue final : public transport::CapsuleHandler {
 public:
  EchoQueue(EchoShard* shard, std::unique_ptr<transport::QueuePair> qp)
      : shard_(shard), qp_(std::move(qp)) {
    qp_->set_handler(this);
  }

  void OnCommand(transport::CommandContext* command) override {
    scope_.Spawn(Serve(command));
  }
  void OnDown(const char* why) override;

  Task<void> Close() {
    co_await qp_->Drained(kFlushLimit);
    qp_->Destroy();
    co_await scope_.Close();
  }
  void Disconnect() { qp_->Disconnect("the end"); }

 private:
  Task<void> Serve(transport::CommandContext* command) {
    nvme::Cqe answer;
    answer.cid = command->sqe.cid;
    const absl::Span<const nvme::KeyedDescriptor> nowhere;
    const transport::Extent nothing;
    co_await qp_->Respond(command, answer, nowhere, nothing, 0, 0,
                          /*may_be_silent=*/true);
    qp_->Release(command);
  }

  EchoShard* const shard_;
  std::unique_ptr<transport::QueuePair> qp_;
  Scope scope_;
};

// The reactor's side: all that is made, used and destroyed there.
class EchoShard final : public transport::ConnectionTaker,
                        public transport::ConnectionOwner {
 public:
  absl::Status Start(Reactor* reactor, const VerbsApi& api,
                     const CqServerOptions& options) {
    transport::ShardOptions shard_options;
    shard_options.cq_depth_factor = options.cq_depth_factor;
    shard_options.in_capsule_bytes =
        options.message_bytes - static_cast<uint32_t>(nvme::kSqeBytes);
    SLUICE_ASSIGN_OR_RETURN(
        shard_, transport::Shard::Create(reactor, api, shard_options, this));
    transport::ConnectionManagerOptions manager_options;
    manager_options.io_depth_max = kDepthMax;
    std::vector<transport::Shard*> shards = {shard_.get()};
    manager_ = std::make_unique<transport::ConnectionManager>(
        reactor, api, manager_options, shards, this);
    cost_ = std::make_unique<CostMeter>();
    return manager_->Open();
  }
  Task<absl::Status> Listen(transport::ListenAddress* address) {
    absl::Status status = co_await manager_->Listen(address);
    if (status.ok()) manager_->StartAccepting();
    co_return status;
  }

  void OnConnection(transport::Shard*, std::unique_ptr<transport::QueuePair> qp,
                    const transport::Ticket&) override {
    auto queue = std::make_unique<EchoQueue>(this, std::move(qp));
    queues_[queue.get()] = std::move(queue);
  }
  bool KnowsController(uint16_t) override { return true; }
  void OnDeviceStuck(const std::string&) override {}

  void OnQueueDown(EchoQueue* queue) { scope_.Spawn(CloseQueue(queue)); }

  Task<void> Close() {
    manager_->StopAccepting();
    for (const auto& [queue, owned] : queues_) queue->Disconnect();
    while (!queues_.empty()) {
      SleepFor pause(shard_->reactor(), absl::Milliseconds(5));
      co_await pause;
    }
    co_await scope_.Close();
    co_await manager_->Close();
    manager_.reset();
  }
  void Destroy() { shard_.reset(); }

  Json Cost() {
    const SideCost cost = cost_->Read();
    const ReactorStats& reactor = shard_->reactor()->stats();
    const transport::CqStats cq = shard_->engine()->TotalStats();
    Json out = {
        {"cpu_nanos", cost.cpu_nanos},
        {"ticks", reactor.ticks},
        {"spins", reactor.spins},
        {"sleeps", reactor.sleeps},
        {"rearm_found", reactor.rearm_found},
        {"completions", cq.completions},
        {"batches", cq.batches},
        {"events", cq.events},
        {"wake_cost_nanos", shard_->reactor()->spin_policy().wake_cost_nanos()},
        {"rescued", cq.rescued}};
    if (cost.system_calls) out["system_calls"] = *cost.system_calls;
    return out;
  }
  void SetSpin(const SpinOptions& spin) { shard_->reactor()->set_spin(spin); }

 private:
  Task<void> CloseQueue(EchoQueue* queue) {
    co_await queue->Close();
    queues_.erase(queue);
  }

  std::unique_ptr<transport::Shard> shard_;
  std::unique_ptr<transport::ConnectionManager> manager_;
  std::unique_ptr<CostMeter> cost_;
  std::map<EchoQueue*, std::unique_ptr<EchoQueue>> queues_;
  Scope scope_;
};

void EchoQueue::OnDown(const char*) { shard_->OnQueueDown(this); }

SpinOptions SpinOf(const Json& wanted) {
  SpinOptions spin;
  const std::string mode = wanted.value("mode", "hybrid");
  if (mode == "poll") spin.mode = PollMode::kPoll;
  if (mode == "event") spin.mode = PollMode::kEvent;
  spin.fixed_spin = absl::Microseconds(wanted.value("fixed_us", 0.0));
  spin.max_spin = absl::Microseconds(
      wanted.value("max_spin_us", absl::ToDoubleMicroseconds(spin.max_spin)));
  spin.max_spin_share = wanted.value("max_spin_share", spin.max_spin_share);
  return spin;
}

// Until the client goes.
void Serve(ControlConnection* control, ReactorThread* thread,
           EchoShard* shard) {
  while (true) {
    const absl::StatusOr<std::string> line = control->ReadLine();
    if (!line.ok()) return;
    const Json wanted = Json::parse(*line, nullptr, /*allow_exceptions=*/false);
    if (!wanted.is_object()) return;
    if (wanted.contains("spin")) {
      thread->Run([&] { shard->SetSpin(SpinOf(wanted["spin"])); });
    }
    const Json cost = thread->Run([&] { return shard->Cost(); });
    if (!control->WriteLine(cost.dump()).ok()) return;
  }
}

}  // namespace

absl::Status RunCqServer(const VerbsApi& api, const CqServerOptions& options,
                         bool once,
                         const std::function<void(uint16_t)>& listening) {
  SLUICE_ASSIGN_OR_RETURN(transport::ListenAddress address,
                          transport::ParseListenAddress(options.listen, 0));
  SLUICE_ASSIGN_OR_RETURN(auto door, ControlListener::Open(address));
  ReactorOptions reactor_options;
  reactor_options.cpu = options.cpu;
  SLUICE_ASSIGN_OR_RETURN(auto thread, ReactorThread::Start(reactor_options));
  EchoShard shard;
  address.set_port(0);
  SLUICE_RETURN_IF_ERROR(thread->Run(
      [&] { return shard.Start(thread->reactor(), api, options); }));
  SLUICE_RETURN_IF_ERROR(
      thread->RunTask([&] { return shard.Listen(&address); }));
  listening(door->port());
  absl::Status status;
  do {
    absl::StatusOr<std::unique_ptr<ControlConnection>> control = door->Accept();
    if (!control.ok()) {
      status = control.status();
      break;
    }
    const Json hello = {{"port", address.port()},
                        {"message_bytes", options.message_bytes}};
    if ((*control)->WriteLine(hello.dump()).ok()) {
      Serve(control->get(), thread.get(), &shard);
    }
  } while (!once);
  thread->RunTask([&] { return shard.Close(); });
  thread->Run([&] { shard.Destroy(); });
  return status;
}

}  // namespace sluice::bench
