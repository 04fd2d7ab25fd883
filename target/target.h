// The target: reactors, subsystems, listeners. Started and stopped by a program
// or a test from a thread that is no reactor.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/blocking_pool.h"
#include "core/reactor_thread.h"
#include "target/options.h"
#include "target/registry.h"
#include "target/target_shard.h"
#include "transport/connection_manager.h"

namespace sluice::target {

// Counters of everything, taken at one moment per reactor: the one call for
// whoever shows or exports them.
struct TargetSnapshot {
  // One of a reactor's CQs.
  struct CompletionQueue {
    std::string device;
    uint32_t capacity = 0;
    uint32_t reserved = 0;
    uint32_t outstanding = 0;
    uint32_t outstanding_max = 0;  // what it may have had to hold at once
    bool lost = false;
    transport::CqStats stats;
  };
  struct SharedReceives {
    std::string device;
    transport::SharedReceivesStats stats;
  };
  struct QueuePair {
    uint16_t qid = 0;
    uint16_t cntlid = 0;  // 0 before its Connect command
    uint32_t outstanding = 0;
    transport::QueuePairStats stats;
  };
  struct Shard {
    int index = 0;
    ReactorStats reactor;
    SpinStats spin;
    SpinOptions spin_options;
    int64_t wake_cost_nanos = 0;  // as measured
    double load = 0;              // as the spin policy sees it, 0 to 1
    Histogram wake_latency_nanos;
    transport::CqStats completion_queues;
    transport::RecoveryStats recovery;
    TargetProbe target;
    uint64_t queues = 0;
    uint64_t cq_count = 0;
    uint64_t cq_capacity = 0;  // entries of all CQs
    uint64_t cq_reserved = 0;
    uint64_t cq_outstanding = 0;
    uint64_t cq_outstanding_max = 0;  // highest seen, summed over the CQs
    uint64_t pool_bytes = 0;
    uint64_t pool_used_bytes = 0;
    uint64_t pool_waits = 0;
    uint64_t ring_overflows = 0;
    uint64_t registered_bytes = 0;
    std::vector<CompletionQueue> cqs;
    std::vector<SharedReceives> shared_receives;
    std::vector<QueuePair> queue_pairs;
  };
  std::vector<Shard> shards;
  // Of the RDMA devices in use, as the kernel counts: "rxe0/rcv_pkts".
  std::map<std::string, uint64_t> device_counters;
  transport::ConnectionStats connections;
  uint64_t connections_open = 0;
  uint64_t controllers = 0;
};

class Target final : public transport::ConnectionOwner {
 public:
  // Opens the backings, starts the reactors, listens. When it returns hosts can
  // connect. Errors are one line that says what to do; nothing is left behind.
  static absl::StatusOr<std::unique_ptr<Target>> Start(
      const TargetOptions& options, const VerbsApi& api);
  // Stop() was called.
  ~Target() override;

  // Addresses with the ports chosen, in the order of options.listen.
  const std::vector<transport::ListenAddress>& addresses() const {
    return shared_.addresses;
  }
  const std::vector<std::unique_ptr<Subsystem>>& subsystems() const {
    return shared_.subsystems;
  }
  const TargetOptions& options() const { return shared_.options; }

  // Thread-safe, all three.
  TargetSnapshot Snapshot();
  // For people: the last `count` records of each CQ's flight recorder, and the
  // work requests that have been out for longer than `overdue`.
  std::string DescribeFlights(uint32_t count, absl::Duration overdue);
  // How the reactor of this number waits from now on.
  void SetSpin(size_t index, const SpinOptions& spin);
  // A device is gone that librdmacm cannot let go of in this process: called
  // on the control reactor, at once if it has happened already.
  void set_on_device_stuck(std::function<void(const std::string&)> callback);

  // Finishes or fails what is in flight within options.drain_timeout,
  // disconnects the hosts, frees everything. False: some I/O never came back
  // and the process should exit at once.
  bool Stop();

  // transport::ConnectionOwner, on the control reactor.
  bool KnowsController(uint16_t cntlid) override;
  void OnDeviceStuck(const std::string& device) override;

 private:
  Target(const TargetOptions& options, const VerbsApi& api);
  absl::Status OpenSubsystems();
  absl::Status StartReactors();
  absl::Status Listen();
  // Of all reactors; Stop()'s result.
  bool Drain();
  void StopReactors();
  Task<void> CloseControl();
  static void OnSizeTimer(void* context);
  void ArmSizeTimer();
  Task<void> CheckSizes();
  Task<void> TellSize(const Subsystem* subsystem, uint32_t nsid,
                      uint64_t size_bytes);

  const VerbsApi& api_;
  TargetShared shared_;
  Registry registry_;
  BlockingPool pool_;
  std::vector<std::unique_ptr<ReactorThread>> threads_;
  std::vector<std::unique_ptr<TargetShard>> shards_;
  std::unique_ptr<transport::ConnectionManager> manager_;
  // The control reactor's:
  Scope scope_;
  Timer size_timer_;
  std::function<void(const std::string&)> on_device_stuck_;
  std::string stuck_device_;
  bool stopping_ = false;
};

}  // namespace sluice::target
