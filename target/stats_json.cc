#include "target/stats_json.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace sluice::target {
namespace {

using Json = nlohmann::ordered_json;

void AddCommands(const TargetProbe& probe, Json* out) {
  (*out)["sluice_target_commands_total"] = {
      {"read", probe.read_commands},
      {"write", probe.write_commands},
      {"flush", probe.flush_commands},
      {"write_zeroes", probe.write_zeroes_commands},
      {"dataset_management", probe.dataset_management_commands},
      {"compare", probe.compare_commands},
      {"admin", probe.admin_commands},
      {"fabrics", probe.fabrics_commands},
  };
  (*out)["sluice_target_failed_commands_total"] = probe.failed_commands;
  (*out)["sluice_target_read_bytes_total"] = probe.read_bytes;
  (*out)["sluice_target_written_bytes_total"] = probe.written_bytes;
  (*out)["sluice_target_in_capsule_writes_total"] = probe.in_capsule_writes;
  (*out)["sluice_target_keep_alive_expired_total"] = probe.keep_alive_expired;
}

TargetProbe SumOf(const TargetSnapshot& snapshot) {
  TargetProbe sum;
  for (const TargetSnapshot::Shard& shard : snapshot.shards) {
    const TargetProbe& probe = shard.target;
    sum.read_commands += probe.read_commands;
    sum.write_commands += probe.write_commands;
    sum.flush_commands += probe.flush_commands;
    sum.write_zeroes_commands += probe.write_zeroes_commands;
    sum.dataset_management_commands += probe.dataset_management_commands;
    sum.compare_commands += probe.compare_commands;
    sum.admin_commands += probe.admin_commands;
    sum.fabrics_commands += probe.fabrics_commands;
    sum.failed_commands += probe.failed_commands;
    sum.read_bytes += probe.read_bytes;
    sum.written_bytes += probe.written_bytes;
    sum.in_capsule_writes += probe.in_capsule_writes;
    sum.keep_alive_expired += probe.keep_alive_expired;
  }
  return sum;
}

void AddConnections(const TargetSnapshot& snapshot, Json* out) {
  const transport::ConnectionStats& stats = snapshot.connections;
  (*out)["sluice_target_controllers"] = snapshot.controllers;
  (*out)["sluice_transport_connections"] = snapshot.connections_open;
  (*out)["sluice_transport_connections_total"] = {
      {"requested", stats.requests}, {"accepted", stats.accepted},
      {"rejected", stats.rejected},  {"no_resources", stats.no_resources},
      {"closed", stats.closed},
  };
  (*out)["sluice_transport_device_removals_total"] = stats.device_removals;
  (*out)["sluice_transport_device_failures_total"] = stats.device_failures;
  (*out)["sluice_transport_cq_errors_total"] = stats.cq_errors;
  (*out)["sluice_transport_queue_pair_errors_total"] = stats.queue_pair_errors;
  (*out)["sluice_transport_adapted_connections_total"] = stats.adapted;
}

std::string Or(const std::string& left, uint64_t right) {
  return left + "/" + std::to_string(right);
}

// Of a reactor's CQs together: completions by what they were of, how they
// ended, and how many a poll found.
void AddCompletions(const transport::CqStats& stats, Json* out) {
  Json kinds = Json::object();
  for (size_t i = 0; i < stats.by_kind.size(); ++i) {
    if (stats.by_kind[i] == 0) continue;
    const auto kind = static_cast<transport::WrKind>(i);
    kinds[transport::WrKindName(kind)] = stats.by_kind[i];
  }
  Json statuses = Json::object();
  for (size_t i = 0; i < stats.by_status.size(); ++i) {
    if (stats.by_status[i] == 0) continue;
    statuses[transport::WcStatusName(i)] = stats.by_status[i];
  }
  Json sizes = Json::object();
  for (size_t i = 0; i < stats.batch_sizes.size(); ++i) {
    sizes[std::to_string(uint64_t{1} << i)] = stats.batch_sizes[i];
  }
  (*out)["sluice_transport_completions_by_kind_total"] = std::move(kinds);
  (*out)["sluice_transport_completions_by_status_total"] = std::move(statuses);
  (*out)["sluice_transport_batch_size_total"] = std::move(sizes);
}

// Each of them, and each queue pair.
void AddEach(const TargetSnapshot::Shard& shard, Json* out) {
  Json cqs = Json::object();
  for (size_t i = 0; i < shard.cqs.size(); ++i) {
    const TargetSnapshot::CompletionQueue& cq = shard.cqs[i];
    cqs[Or(cq.device, i)] = {{"capacity", cq.capacity},
                             {"reserved", cq.reserved},
                             {"outstanding", cq.outstanding},
                             {"outstanding_max", cq.outstanding_max},
                             {"completions", cq.stats.completions},
                             {"lost", cq.lost ? 1U : 0U}};
  }
  Json shared = Json::object();
  for (const TargetSnapshot::SharedReceives& one : shard.shared_receives) {
    shared[one.device] = {{"total", one.stats.count},
                          {"admitted", one.stats.admitted},
                          {"posted", one.stats.posted},
                          {"orphaned", one.stats.orphans}};
  }
  (*out)["sluice_transport_shared_receives"] = std::move(shared);
  Json outstanding = Json::object();
  for (const TargetSnapshot::QueuePair& qp : shard.queue_pairs) {
    outstanding[Or(std::to_string(qp.cntlid), qp.qid)] = qp.outstanding;
  }
  (*out)["sluice_transport_cq_entries"] = std::move(cqs);
  (*out)["sluice_transport_queue_pair_outstanding_entries"] =
      std::move(outstanding);
}

void AddCompletionQueues(const TargetSnapshot::Shard& shard, Json* out) {
  const transport::CqStats& stats = shard.completion_queues;
  (*out)["sluice_transport_completions_total"] = stats.completions;
  (*out)["sluice_transport_error_completions_total"] = stats.errors;
  (*out)["sluice_transport_flushed_completions_total"] = stats.flushes;
  (*out)["sluice_transport_stale_completions_total"] = stats.stale;
  (*out)["sluice_transport_rescued_completions_total"] = stats.rescued;
  (*out)["sluice_transport_empty_polls_total"] = stats.empty_polls;
  (*out)["sluice_transport_batches_total"] = stats.batches;
  (*out)["sluice_transport_cq_arms_total"] = stats.arms;
  (*out)["sluice_transport_cq_events_total"] = stats.events;
  (*out)["sluice_transport_cq_events_acknowledged_total"] = stats.acknowledged;
  (*out)["sluice_transport_cqs_lost_total"] = shard.recovery.cqs_lost;
  (*out)["sluice_transport_channel_failures_total"] =
      shard.recovery.channel_failures;
  (*out)["sluice_transport_peer_trouble_total"] = {
      {"receiver_not_ready", shard.recovery.receiver_not_ready},
      {"read_depth", shard.recovery.read_depth},
  };
  AddCompletions(stats, out);
  (*out)["sluice_transport_cqs"] = shard.cq_count;
  (*out)["sluice_transport_cq_capacity_entries"] = shard.cq_capacity;
  (*out)["sluice_transport_cq_reserved_entries"] = shard.cq_reserved;
  (*out)["sluice_transport_cq_outstanding_entries"] = shard.cq_outstanding;
  (*out)["sluice_transport_cq_outstanding_max_entries"] =
      shard.cq_outstanding_max;
  AddEach(shard, out);
}

void AddMemory(const TargetSnapshot::Shard& shard, Json* out) {
  (*out)["sluice_transport_pool_bytes"] = shard.pool_bytes;
  (*out)["sluice_transport_pool_used_bytes"] = shard.pool_used_bytes;
  (*out)["sluice_transport_pool_waits_total"] = shard.pool_waits;
  (*out)["sluice_transport_registered_bytes"] = shard.registered_bytes;
}

void AddReactor(const TargetSnapshot::Shard& shard, Json* out) {
  const ReactorStats& stats = shard.reactor;
  (*out)["sluice_core_ticks_total"] = stats.ticks;
  (*out)["sluice_core_spins_total"] = stats.spins;
  (*out)["sluice_core_sleeps_total"] = stats.sleeps;
  (*out)["sluice_core_wake_ups_total"] = stats.wake_ups;
  (*out)["sluice_core_rearm_found_total"] = stats.rearm_found;
  (*out)["sluice_core_messages_total"] = stats.messages;
  (*out)["sluice_core_ring_completions_total"] = stats.ring_completions;
  (*out)["sluice_core_ring_overflows_total"] = shard.ring_overflows;
  (*out)["sluice_core_timers_total"] = stats.timers;
  (*out)["sluice_core_spun_pauses_total"] = {
      {"found", shard.spin.spins_found},
      {"missed", shard.spin.spins_missed},
  };
  (*out)["sluice_core_spin_decisions_total"] = {
      {"busy", shard.spin.busy},
      {"regular", shard.spin.regular},
      {"probe", shard.spin.probes},
      {"capped", shard.spin.capped},
  };
  (*out)["sluice_core_spin_nanoseconds_total"] = shard.spin.spin_nanos;
  (*out)["sluice_core_load_percent"] = static_cast<uint64_t>(100 * shard.load);
  (*out)["sluice_core_wake_cost_nanoseconds"] =
      static_cast<uint64_t>(shard.wake_cost_nanos);
  const Histogram& latency = shard.wake_latency_nanos;
  (*out)["sluice_core_wake_latency_nanoseconds"] = {
      {"count", latency.count()},
      {"p50", latency.Percentile(0.5)},
      {"p99", latency.Percentile(0.99)},
      {"max", latency.max()},
  };
}

Json ShardJson(const TargetSnapshot::Shard& shard) {
  Json out = {{"reactor", shard.index}};
  out["sluice_target_queues"] = shard.queues;
  AddCommands(shard.target, &out);
  AddCompletionQueues(shard, &out);
  AddMemory(shard, &out);
  AddReactor(shard, &out);
  return out;
}

}  // namespace

std::string StatsJson(const TargetSnapshot& snapshot, absl::Time now) {
  Json out;
  out["time"] =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", now, absl::UTCTimeZone());
  AddCommands(SumOf(snapshot), &out);
  AddConnections(snapshot, &out);
  Json counters = Json::object();
  for (const auto& [name, value] : snapshot.device_counters) {
    counters[name] = value;
  }
  out["sluice_transport_device_counters"] = std::move(counters);
  out["reactors"] = Json::array();
  for (const TargetSnapshot::Shard& shard : snapshot.shards) {
    out["reactors"].push_back(ShardJson(shard));
  }
  return out.dump();
}

}  // namespace sluice::target
