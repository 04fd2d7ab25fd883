// nvmf_bench: reads from an NVMe-oF target, one polling client thread, on the
// connect code of the conformance client.
//
//   nvmf_bench --sluiced build/release/bin/sluiced [--repeats N]
//              [--depths 1,32] [--poll-modes poll,hybrid,event] [--export SPEC]
//       starts sluiced on loopback and prints a table beside plain TCP
//   nvmf_bench --port PORT --nqn NQN [--provider iwarp|verbs] [--address ADDR]
//              [--depth N] [--queues N] [--sleeping] [--server-pid PID]
//       one run against a target that is there; its namespace 1
//   nvmf_bench --sluiced build/release/bin/sluiced --fairness [--depth N]
//              [--repeats N]
//       a queue with one command at a time beside one at full rate
//   all: [--bytes N] [--sequential] [--seconds S] [--warmup S] [--idle S]
//         [--json FILE]
//
// Exit codes: 0; 2 when the target cannot be reached or a run fails; others for
// wrong options.
#include <CLI/CLI.hpp>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/log.h"
#include "tools/bench/bench_run.h"
#include "tools/bench/fairness.h"
#include "tools/bench/nvmf_load.h"
#include "tools/bench/target_table.h"

namespace sluice::bench {
namespace {

constexpr uint32_t kGreedyDepth = 128;

struct Settings {
  std::string provider = "iwarp";
  std::string address = "127.0.0.1";
  uint16_t port = 4420;
  std::string nqn;
  LoadOptions load;
  TableOptions table;
  bool fairness = false;
};

void Describe(CLI::App* app, Settings* settings) {
  LoadOptions& load = settings->load;
  TableOptions& table = settings->table;
  app->add_option("--provider", settings->provider)
      ->check(CLI::IsMember({"iwarp", "verbs"}));
  app->add_option("--address", settings->address);
  app->add_option("--port", settings->port);
  auto* nqn = app->add_option("--nqn", settings->nqn, "of a running target");
  app->add_option("--depth", load.depth, "commands in flight on each queue")
      ->check(CLI::Range(1, 1024));
  app->add_option("--queues", load.queues)->check(CLI::Range(1, 64));
  app->add_option("--bytes", load.bytes, "of a command; default 4096")
      ->check(CLI::Range(512, 16 << 20));
  app->add_flag("--sequential", load.sequential, "else random");
  app->add_flag("--sleeping", load.sleeping, "the client waits for events");
  app->add_option("--seconds", load.seconds, "measured; default 3")
      ->check(CLI::PositiveNumber);
  app->add_option("--warmup", load.warmup_seconds, "before; default 0.5")
      ->check(CLI::NonNegativeNumber);
  app->add_option("--idle", table.idle_seconds, "after; default 5")
      ->check(CLI::NonNegativeNumber);
  app->add_option("--server-pid", load.server_pid,
                  "whose processor time is reported")
      ->check(CLI::PositiveNumber);
  auto* sluiced =
      app->add_option("--sluiced", table.sluiced, "the program to start");
  app->add_option("--export", table.export_spec, "of it; default null:1G");
  app->add_option("--sluiced-flags", table.sluiced_flags, "further ones")
      ->delimiter(' ');
  app->add_option("--poll-modes", table.poll_modes)
      ->delimiter(',')
      ->check(CLI::IsMember({"poll", "hybrid", "event"}));
  app->add_option("--depths", table.depths)
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  app->add_option("--repeats", table.repeats, "default 3")
      ->check(CLI::Range(1, 1000));
  app->add_option("--json", table.json, "a file for the values");
  app->add_flag("--fairness", settings->fairness,
                "a queue of depth 1 beside one of --depth, by default 128")
      ->needs(sluiced);
  nqn->excludes(sluiced);
}

void Print(const LoadOptions& load, const LoadResult& result) {
  std::printf("%" PRIu64 " reads of %u bytes in %.2f s, %u queues of %u\n",
              result.count, load.bytes, result.seconds, load.queues,
              load.depth);
  std::printf("IOPS     %.0f\n", result.iops());
  std::printf("latency  mean %.1f  p50 %.1f  p99 %.1f  p99.9 %.1f us\n",
              result.mean_us(), result.latency_us(0.5), result.latency_us(0.99),
              result.latency_us(0.999));
  std::printf("client   %.0f us per 1,000 reads\n",
              result.cpu_us_per_1000(result.client_cpu_nanos));
  if (load.server_pid == 0) return;
  std::printf("server   %.0f us per 1,000 reads\n",
              result.cpu_us_per_1000(result.server_cpu_nanos));
  if (load.idle_seconds == 0) return;
  std::printf("idle     %.2f %% of a processor\n",
              result.idle_core_share * 100);
}

void Write(const std::string& path, const LoadResult& result) {
  const nlohmann::json out = {{"count", result.count},
                              {"iops", result.iops()},
                              {"mean_us", result.mean_us()},
                              {"p50_us", result.latency_us(0.5)},
                              {"p99_us", result.latency_us(0.99)},
                              {"p999_us", result.latency_us(0.999)},
                              {"client_cpu_us_per_1000",
                               result.cpu_us_per_1000(result.client_cpu_nanos)},
                              {"server_cpu_us_per_1000",
                               result.cpu_us_per_1000(result.server_cpu_nanos)},
                              {"idle_share", result.idle_core_share}};
  std::ofstream(path) << out.dump(2);
}

absl::Status RunOnce(Settings* settings) {
  const VerbsApi& api =
      settings->provider == "iwarp" ? VerbsApi::Iwarp() : VerbsApi::System();
  LoadOptions& load = settings->load;
  load.host = conformance::MakeHost(api, settings->address, settings->port,
                                    settings->nqn);
  load.idle_seconds = settings->table.idle_seconds;
  PinThread(0);
  const auto result = RunLoad(load);
  if (!result.ok()) return result.status();
  Print(load, *result);
  if (!settings->table.json.empty()) Write(settings->table.json, *result);
  return absl::OkStatus();
}

absl::Status RunFairnessTable(const CLI::App& app, const Settings& settings) {
  const TableOptions& table = settings.table;
  FairnessOptions options;
  options.target.sluiced = table.sluiced;
  options.target.export_spec = table.export_spec;
  options.target.flags = table.sluiced_flags;
  options.greedy_depth =
      app.count("--depth") > 0 ? settings.load.depth : kGreedyDepth;
  options.bytes = settings.load.bytes;
  options.seconds = settings.load.seconds;
  options.repeats = table.repeats;
  options.json = table.json;
  return RunFairness(options);
}

int Run(int argc, char** argv) {
  Settings settings;
  CLI::App app("Reads from an NVMe-oF target, as fast as one client can");
  Describe(&app, &settings);
  CLI11_PARSE(app, argc, argv);
  if (settings.nqn.empty() == settings.table.sluiced.empty()) {
    return app.exit(CLI::RequiredError("one of --nqn and --sluiced"));
  }
  SetLogLevel(LogLevel::kWarning);
  absl::Status status;
  if (settings.fairness) {
    status = RunFairnessTable(app, settings);
  } else if (settings.nqn.empty()) {
    status = RunTable(settings.table, settings.load);
  } else {
    status = RunOnce(&settings);
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "nvmf_bench: %s\n", status.ToString().c_str());
  return 2;
}

}  // namespace
}  // namespace sluice::bench

// NOLINTNEXTLINE(bugprone-exception-escape): what it throws, it is to die of
int main(int argc, char** argv) { return sluice::bench::Run(argc, argv); }
