// The target of one reactor: its transport, a block device for each namespace,
// its queues. New connections arrive here and stay.
//
// Home: its reactor.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/blocking_pool.h"
#include "core/histogram.h"
#include "core/reactor.h"
#include "target/controller.h"
#include "target/options.h"
#include "target/queue.h"
#include "target/registry.h"
#include "target/subsystem.h"
#include "transport/listen_address.h"
#include "transport/shard.h"

namespace sluice::target {

// What all shards share and only read, but for the registry, which lives on
// the control reactor.
struct TargetShared {
  TargetOptions options;
  std::vector<std::unique_ptr<Subsystem>> subsystems;  // the discovery one last
  Registry* registry = nullptr;
  Reactor* control = nullptr;
  BlockingPool* pool = nullptr;
  // Where hosts can connect; set before the first of them can.
  std::vector<transport::ListenAddress> addresses;
  // GENCTR of the discovery log: to rise whenever what it tells has changed.
  uint64_t discovery_generation = 1;

  // Null when there is none of this name.
  const Subsystem* Find(const nvme::Nqn& nqn) const;
};

// Counters of a shard's commands.
struct TargetProbe {
  uint64_t read_commands = 0;
  uint64_t write_commands = 0;
  uint64_t flush_commands = 0;
  uint64_t write_zeroes_commands = 0;
  uint64_t dataset_management_commands = 0;
  uint64_t compare_commands = 0;
  uint64_t admin_commands = 0;
  uint64_t fabrics_commands = 0;
  uint64_t failed_commands = 0;  // answered with an error
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  uint64_t in_capsule_writes = 0;
  uint64_t keep_alive_expired = 0;
};

class TargetShard final : public transport::ConnectionTaker {
 public:
  using Devices = std::vector<std::unique_ptr<blockdev::BlockDevice>>;

  // On the reactor's thread.
  static absl::StatusOr<std::unique_ptr<TargetShard>> Create(
      Reactor* reactor, const VerbsApi& api, TargetShared* shared,
      const transport::ShardOptions& options);
  ~TargetShard() override;

  // transport::ConnectionTaker.
  void OnConnection(transport::Shard* shard,
                    std::unique_ptr<transport::QueuePair> qp,
                    const transport::Ticket& ticket) override;

  Reactor* reactor() const { return reactor_; }
  TargetShared* shared() const { return shared_; }
  transport::Shard* transport() const { return transport_.get(); }
  TargetProbe* probe() { return &probe_; }

  // The block devices of a subsystem here, by NSID - 1.
  const Devices* DevicesOf(const Subsystem* subsystem) const;
  // Controllers at home here.
  Controller* FindController(uint16_t cntlid) const;
  void AddController(Controller* controller);
  void RemoveController(Controller* controller);
  // Null when the queue is gone.
  Queue* FindQueue(uint64_t serial) const;

  // A queue went down: closes and deletes it.
  void OnQueueDown(Queue* queue);
  // The backing of a namespace has grown: here, and for the hosts whose
  // controllers are at home here.
  void SetSize(const Subsystem* subsystem, uint32_t nsid, uint64_t size_bytes);
  void TellNamespaceChanged(const Subsystem* subsystem, uint32_t nsid);

  // The end, in four steps, each taken on every reactor before the next: the
  // queues of one controller live on several, and the first that goes takes the
  // others along. Deadlines are those of the reactors' clock.
  //
  // New commands are left unanswered from now on.
  void Quiesce();
  // Waits for the commands being served.
  Task<void> Settle(int64_t deadline_nanos);
  void DisconnectAll();
  // Waits for the queues to go. False when some never went.
  Task<bool> Emptied(int64_t deadline_nanos);
  size_t queue_count() const { return queues_.size(); }
  void ForEachQueue(absl::FunctionRef<void(const Queue&)> tell) const {
    for (const auto& [serial, queue] : queues_) tell(*queue);
  }

 private:
  TargetShard(Reactor* reactor, TargetShared* shared)
      : reactor_(reactor), shared_(shared) {}
  absl::Status AttachDevices();
  Task<void> CloseQueue(Queue* queue);

  Reactor* const reactor_;
  TargetShared* const shared_;
  std::unique_ptr<transport::Shard> transport_;
  std::vector<Devices> devices_;  // by subsystem
  std::map<uint64_t, std::unique_ptr<Queue>> queues_;
  std::map<uint16_t, Controller*> controllers_;
  uint64_t next_serial_ = 1;
  Scope scope_;
  TargetProbe probe_;
};

}  // namespace sluice::target
