#include "tools/bench/target_table.h"

#include <signal.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "core/status_macros.h"
#include "tools/bench/bench_run.h"
#include "tools/bench/child_process.h"
#include "tools/bench/own_target.h"
#include "tools/bench/raw_tcp.h"

namespace sluice::bench {
namespace {

// On iWARP's wire: a SEND's headers, the capsule, the checksum's room; back a
// WRITE's and those of the SEND with the CQE.
constexpr size_t kRequestBytes = 20 + 64 + 4;
constexpr size_t kResponseBytes = (16 + 4) + (20 + 16 + 4);

// What one row has of each of its repeats.
struct Row {
  std::string mode;
  uint32_t depth = 0;
  std::vector<double> tcp_iops, iops, ratio;
  std::vector<double> tcp_p50, mean, p50, p99, p999;
  std::vector<double> client_cpu, server_cpu;

  void Print() const {
    std::printf(
        "%-7s %5u %9.0f %9.0f %6.2f %7.1f %7.1f %7.1f %7.1f %7.1f %8.0f "
        "%8.0f\n",
        mode.c_str(), depth, Median(tcp_iops), Median(iops), Median(ratio),
        Median(tcp_p50), Median(mean), Median(p50), Median(p99), Median(p999),
        Median(client_cpu), Median(server_cpu));
    std::fflush(stdout);
  }
  nlohmann::json ToJson() const {
    return {{"poll_mode", mode},
            {"depth", depth},
            {"tcp_iops", tcp_iops},
            {"iops", iops},
            {"ratio", Median(ratio)},
            {"tcp_p50_us", tcp_p50},
            {"mean_us", mean},
            {"p50_us", p50},
            {"p99_us", p99},
            {"p999_us", p999},
            {"client_cpu_us_per_1000", client_cpu},
            {"server_cpu_us_per_1000", server_cpu}};
  }
};

// On the first processor, which what is started later shall not inherit.
absl::StatusOr<LoadResult> RunPinned(const LoadOptions& load) {
  absl::StatusOr<LoadResult> result = absl::UnknownError("not run");
  std::thread client([&] {
    PinThread(0);
    result = RunLoad(load);
  });
  client.join();
  return result;
}

absl::Status AddRepeat(const LoadOptions& load, const ChildProcess& server,
                       Row* row) {
  const RawOptions raw = {"127.0.0.1", load.seconds};
  server.Suspend(true);
  const RunResult yard =
      RawRequests(raw, kRequestBytes, kResponseBytes + load.bytes, load.depth);
  server.Suspend(false);
  if (!yard.ok()) {
    return absl::UnavailableError(
        absl::StrCat("TCP: ", yard.active.error, yard.passive.error));
  }
  SLUICE_ASSIGN_OR_RETURN(const LoadResult ours, RunPinned(load));
  row->tcp_iops.push_back(yard.per_second());
  row->tcp_p50.push_back(yard.percentile_us(0.5));
  row->iops.push_back(ours.iops());
  row->ratio.push_back(ours.iops() / yard.per_second());
  row->mean.push_back(ours.mean_us());
  row->p50.push_back(ours.latency_us(0.5));
  row->p99.push_back(ours.latency_us(0.99));
  row->p999.push_back(ours.latency_us(0.999));
  row->client_cpu.push_back(ours.cpu_us_per_1000(ours.client_cpu_nanos));
  row->server_cpu.push_back(ours.cpu_us_per_1000(ours.server_cpu_nanos));
  return absl::OkStatus();
}

// All rows of one poll mode, and what its server costs when idle.
absl::Status RunMode(const TableOptions& options, const LoadOptions& load,
                     const std::string& mode, nlohmann::json* out) {
  OwnTargetOptions own;
  own.sluiced = options.sluiced;
  own.export_spec = options.export_spec;
  own.poll_mode = mode;
  own.flags = options.sluiced_flags;
  SLUICE_ASSIGN_OR_RETURN(const OwnTarget server, StartOwnTarget(own));
  LoadOptions each = load;
  each.host = conformance::MakeHost(VerbsApi::Iwarp(), "127.0.0.1", server.port,
                                    OwnTarget::kNqn);
  each.server_pid = server.process->pid();
  each.sleeping = mode == "event";
  for (const uint32_t depth : options.depths) {
    Row row;
    row.mode = mode;
    row.depth = each.depth = depth;
    for (int i = 0; i < options.repeats; ++i) {
      SLUICE_RETURN_IF_ERROR(AddRepeat(each, *server.process, &row));
    }
    row.Print();
    out->push_back(row.ToJson());
  }
  each.seconds = 0.1;
  each.idle_seconds = options.idle_seconds;
  SLUICE_ASSIGN_OR_RETURN(const LoadResult idle, RunPinned(each));
  std::printf("%-7s  idle, one queue connected: %.2f %% of a processor\n",
              mode.c_str(), idle.idle_core_share * 100);
  out->push_back({{"poll_mode", mode}, {"idle_share", idle.idle_core_share}});
  const int code = server.process->Finish(SIGTERM);
  if (code == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("sluiced ended with ", code));
}

}  // namespace

absl::Status RunTable(const TableOptions& options, const LoadOptions& load) {
  std::printf("%s, %u bytes, %s reads, %d x %g s each in turn, medians\n",
              options.export_spec.c_str(), load.bytes,
              load.sequential ? "sequential" : "random", options.repeats,
              load.seconds);
  std::printf("%-7s %5s %9s %9s %6s %7s %7s %7s %7s %7s %8s %8s\n", "mode",
              "depth", "TCP IOPS", "IOPS", "ratio", "TCP p50", "mean", "p50",
              "p99", "p99.9", "client", "sluiced");
  nlohmann::json out = nlohmann::json::array();
  for (const std::string& mode : options.poll_modes) {
    SLUICE_RETURN_IF_ERROR(RunMode(options, load, mode, &out));
  }
  std::printf(
      "us; processor time of each side in us per 1,000 commands. TCP: both\n"
      "sides poll, the same bytes each way, one system call for what is "
      "there.\n"
      "For scale, on another machine with two cores, each side polling one:\n"
      "SPDK's NVMe/TCP 870,000 IOPS at depth 32 and 11 us at depth 1; nbdkit\n"
      "89,000 and 65 us.\n");
  if (!options.json.empty()) std::ofstream(options.json) << out.dump(2);
  return absl::OkStatus();
}

}  // namespace sluice::bench
