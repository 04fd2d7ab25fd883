// The counters of a running target.
#include "target/target.h"

namespace sluice::target {
namespace {

TargetSnapshot::Shard Take(TargetShard* shard) {
  TargetSnapshot::Shard taken;
  transport::Shard* transport = shard->transport();
  taken.index = shard->reactor()->index();
  taken.reactor = shard->reactor()->stats();
  taken.completion_queues = transport->engine()->TotalStats();
  taken.target = *shard->probe();
  taken.queues = shard->queue_count();
  for (const auto& device : transport->devices()) {
    taken.registered_bytes += device->memory()->registered_bytes();
    for (const auto& queue : device->queues()) {
      ++taken.cq_count;
      taken.cq_capacity += queue->ledger.capacity();
      taken.cq_reserved += queue->ledger.reserved();
      taken.cq_outstanding += queue->ledger.outstanding();
      taken.cq_outstanding_max += queue->ledger.outstanding_max();
    }
  }
  taken.pool_bytes = transport->extents()->total_bytes();
  taken.pool_used_bytes = transport->extents()->used_bytes();
  taken.pool_waits = transport->extents()->waits();
  taken.ring_overflows = shard->reactor()->ring()->overflows();
  return taken;
}

}  // namespace

TargetSnapshot Target::Snapshot() {
  TargetSnapshot snapshot;
  for (size_t i = 0; i < shards_.size(); ++i) {
    TargetShard* shard = shards_[i].get();
    snapshot.shards.push_back(
        threads_[i]->Run([shard] { return Take(shard); }));
  }
  threads_.front()->Run([this, &snapshot] {
    snapshot.connections = manager_->stats();
    snapshot.connections_open = manager_->connections();
    snapshot.controllers = registry_.size();
  });
  return snapshot;
}

}  // namespace sluice::target
