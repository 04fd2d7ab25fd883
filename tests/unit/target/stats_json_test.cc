#include "target/stats_json.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <string>

namespace sluice::target {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

TargetSnapshot TwoShards() {
  TargetSnapshot snapshot;
  snapshot.shards.resize(2);
  snapshot.shards[1].index = 1;
  snapshot.shards[0].target.read_commands = 3;
  snapshot.shards[1].target.read_commands = 4;
  snapshot.shards[1].target.written_bytes = UINT64_MAX;
  snapshot.shards[1].completion_queues.rescued = 5;
  snapshot.shards[1].cq_outstanding_max = 6;
  snapshot.shards[1].reactor.sleeps = 7;
  snapshot.shards[1].reactor.wake_ups = 12;
  snapshot.shards[1].recovery = {.channel_failures = 21,
                                 .cqs_lost = 22,
                                 .receiver_not_ready = 24,
                                 .read_depth = 25};
  snapshot.connections.queue_pair_errors = 23;
  snapshot.shards[1].spin.regular = 13;
  snapshot.shards[1].load = 0.42;
  snapshot.shards[1].wake_latency_nanos.Record(15'000);
  snapshot.shards[1].completion_queues.by_kind[static_cast<size_t>(
      transport::WrKind::kReceive)] = 16;
  snapshot.shards[1].completion_queues.by_status[IBV_WC_RNR_RETRY_EXC_ERR] = 17;
  ++snapshot.shards[1]
        .completion_queues.batch_sizes[transport::CqStats::BatchIndex(32)];
  snapshot.shards[1].cqs.push_back(
      {.device = "rxe0", .capacity = 512, .outstanding_max = 18, .stats = {}});
  snapshot.shards[1].queue_pairs.push_back(
      {.qid = 2, .cntlid = 3, .outstanding = 19, .stats = {}});
  snapshot.device_counters["rxe0/rcvd_pkts"] = 20;
  snapshot.shards[0].queues = 8;
  snapshot.connections.no_resources = 9;
  snapshot.connections_open = 10;
  snapshot.controllers = 11;
  return snapshot;
}

TEST(StatsJson, SumsAndLabelsTheReactors) {
  const std::string line = StatsJson(TwoShards(), absl::FromUnixMillis(1500));
  const Json json = Json::parse(line);

  EXPECT_THAT(line, Not(HasSubstr("\n")));
  EXPECT_EQ(json["time"], "1970-01-01T00:00:01.500Z");
  EXPECT_EQ(json["sluice_target_commands_total"]["read"], 7);
  EXPECT_EQ(json["sluice_target_written_bytes_total"], UINT64_MAX);
  EXPECT_EQ(json["sluice_target_controllers"], 11);
  EXPECT_EQ(json["sluice_transport_connections"], 10);
  EXPECT_EQ(json["sluice_transport_connections_total"]["no_resources"], 9);
  ASSERT_EQ(json["reactors"].size(), 2U);
  EXPECT_EQ(json["reactors"][0]["sluice_target_queues"], 8);
  EXPECT_EQ(json["reactors"][0]["sluice_target_commands_total"]["read"], 3);
  const Json& second = json["reactors"][1];
  EXPECT_EQ(second["reactor"], 1);
  EXPECT_EQ(second["sluice_transport_rescued_completions_total"], 5);
  EXPECT_EQ(second["sluice_transport_cq_outstanding_max_entries"], 6);
  EXPECT_EQ(second["sluice_core_sleeps_total"], 7);
}

TEST(StatsJson, TellsHowTheReactorsWaitAndWhatTheirQueuesHold) {
  const Json json = Json::parse(StatsJson(TwoShards(), absl::Now()));
  const Json& second = json["reactors"][1];

  EXPECT_EQ(second["sluice_core_wake_ups_total"], 12);
  EXPECT_EQ(second["sluice_transport_channel_failures_total"], 21);
  EXPECT_EQ(second["sluice_transport_cqs_lost_total"], 22);
  EXPECT_EQ(json["sluice_transport_queue_pair_errors_total"], 23);
  EXPECT_EQ(second["sluice_transport_peer_trouble_total"],
            (nlohmann::json{{"receiver_not_ready", 24}, {"read_depth", 25}}));
  EXPECT_EQ(second["sluice_core_spin_decisions_total"]["regular"], 13);
  EXPECT_EQ(second["sluice_core_load_percent"], 42);
  EXPECT_GE(second["sluice_core_wake_latency_nanoseconds"]["p50"], 15'000);
  const Json kinds = {{"receive", 16}};
  EXPECT_EQ(second["sluice_transport_completions_by_kind_total"], kinds);
  const Json statuses = {{"rnr_retry_exceeded", 17}};
  EXPECT_EQ(second["sluice_transport_completions_by_status_total"], statuses);
  EXPECT_EQ(second["sluice_transport_batch_size_total"]["32"], 1);
  EXPECT_EQ(second["sluice_transport_batch_size_total"]["64"], 0);
  const Json& cq = second["sluice_transport_cq_entries"]["rxe0/0"];
  EXPECT_EQ(cq["capacity"], 512);
  EXPECT_EQ(cq["outstanding_max"], 18);
  EXPECT_EQ(second["sluice_transport_queue_pair_outstanding_entries"]["3/2"],
            19);
  EXPECT_EQ(json["sluice_transport_device_counters"]["rxe0/rcvd_pkts"], 20);
}

void CheckNames(const Json& object) {
  const std::regex name("sluice_(core|target|transport)_[a-z_]+");
  for (const auto& [key, value] : object.items()) {
    if (key == "time" || key == "reactor" || key == "reactors") continue;
    EXPECT_TRUE(std::regex_match(key, name)) << key;
    EXPECT_TRUE(value.is_number_unsigned() || value.is_object()) << key;
  }
}

TEST(StatsJson, NamesFollowTheRule) {
  const Json json = Json::parse(StatsJson(TwoShards(), absl::Now()));

  CheckNames(json);
  CheckNames(json["reactors"][0]);
}

TEST(StatsJson, AnEmptySnapshotIsStillALine) {
  const Json json = Json::parse(StatsJson(TargetSnapshot(), absl::Now()));

  EXPECT_EQ(json["reactors"].size(), 0U);
  EXPECT_EQ(json["sluice_target_commands_total"]["write"], 0);
}

}  // namespace
}  // namespace sluice::target
