// The counters of a running target.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/clock.h"
#include "target/target.h"
#include "transport/device_counters.h"
#include "transport/shared_receives.h"

namespace sluice::target {
namespace {

// Of one work request that is overdue.
constexpr uint32_t kMissingTold = 16;
constexpr uint32_t kFollowingTold = 8;

void TakeCompletionQueues(transport::Shard* transport,
                          TargetSnapshot::Shard* taken) {
  for (const auto& device : transport->devices()) {
    taken->registered_bytes += device->memory()->registered_bytes();
    if (device->shared_receives() != nullptr) {
      taken->shared_receives.push_back(
          {device->traits().name, device->shared_receives()->stats()});
    }
    for (const auto& queue : device->queues()) {
      ++taken->cq_count;
      taken->cq_capacity += queue->ledger.capacity();
      taken->cq_reserved += queue->ledger.reserved();
      taken->cq_outstanding += queue->ledger.outstanding();
      taken->cq_outstanding_max += queue->ledger.outstanding_max();
      taken->cqs.push_back({.device = device->traits().name,
                            .capacity = queue->ledger.capacity(),
                            .reserved = queue->ledger.reserved(),
                            .outstanding = queue->ledger.outstanding(),
                            .outstanding_max = queue->ledger.outstanding_max(),
                            .lost = queue->dead,
                            .stats = queue->stats});
    }
  }
}

TargetSnapshot::Shard Take(TargetShard* shard) {
  TargetSnapshot::Shard taken;
  transport::Shard* transport = shard->transport();
  const Reactor& reactor = *shard->reactor();
  taken.index = reactor.index();
  taken.reactor = reactor.stats();
  taken.spin = reactor.spin_policy().stats();
  taken.spin_options = reactor.spin();
  taken.wake_cost_nanos = reactor.spin_policy().wake_cost_nanos();
  taken.load = reactor.spin_policy().load();
  taken.wake_latency_nanos = reactor.wake_latency();
  taken.completion_queues = transport->engine()->TotalStats();
  taken.recovery = *transport->engine()->recovery();
  taken.target = *shard->probe();
  taken.queues = shard->queue_count();
  shard->ForEachQueue([&taken](const Queue& queue) {
    taken.queue_pairs.push_back({.qid = queue.qid(),
                                 .cntlid = queue.cntlid(),
                                 .outstanding = queue.qp().outstanding(),
                                 .stats = queue.qp().stats()});
  });
  TakeCompletionQueues(transport, &taken);
  taken.pool_bytes = transport->extents()->total_bytes();
  taken.pool_used_bytes = transport->extents()->used_bytes();
  taken.pool_waits = transport->extents()->waits();
  taken.ring_overflows = shard->reactor()->ring()->overflows();
  return taken;
}

// A copy of one CQ's recorder, to be read at leisure: on its reactor that would
// hold up the I/O.
struct Flight {
  std::string head;
  std::unique_ptr<transport::FlightRecorder> recorder;
};

std::vector<Flight> CopyRecorders(TargetShard* shard) {
  std::vector<Flight> flights;
  for (const auto& device : shard->transport()->devices()) {
    for (const auto& queue : device->queues()) {
      flights.push_back(
          {absl::StrCat("reactor ", shard->reactor()->index(), ", ",
                        device->traits().name, ", completion queue of ",
                        queue->ledger.capacity(), ", outstanding ",
                        queue->ledger.outstanding(), "\n"),
           std::make_unique<transport::FlightRecorder>(queue->recorder)});
    }
  }
  return flights;
}

}  // namespace

TargetSnapshot Target::Snapshot() {
  TargetSnapshot snapshot;
  for (size_t i = 0; i < shards_.size(); ++i) {
    TargetShard* shard = shards_[i].get();
    snapshot.shards.push_back(
        threads_[i]->Run([shard] { return Take(shard); }));
    for (const TargetSnapshot::CompletionQueue& queue :
         snapshot.shards.back().cqs) {
      transport::ReadDeviceCounters(queue.device, &snapshot.device_counters);
    }
  }
  threads_.front()->Run([this, &snapshot] {
    snapshot.connections = manager_->stats();
    snapshot.connections_open = manager_->connections();
    snapshot.controllers = registry_.size();
  });
  return snapshot;
}

std::string Target::DescribeFlights(uint32_t count, absl::Duration overdue) {
  const int64_t before =
      Clock::Real()->NowNanos() - absl::ToInt64Nanoseconds(overdue);
  std::string text;
  for (size_t i = 0; i < shards_.size(); ++i) {
    TargetShard* shard = shards_[i].get();
    for (const Flight& flight :
         threads_[i]->Run([shard] { return CopyRecorders(shard); })) {
      absl::StrAppend(&text, flight.head, flight.recorder->Dump(count),
                      flight.recorder->DumpMissingSends(before, kMissingTold,
                                                        kFollowingTold));
    }
  }
  return text;
}

void Target::SetSpin(size_t index, const SpinOptions& spin) {
  Reactor* reactor = threads_[index]->reactor();
  threads_[index]->Run([reactor, &spin] { reactor->set_spin(spin); });
}

}  // namespace sluice::target
