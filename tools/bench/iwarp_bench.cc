// iwarp_bench: the iWARP provider beside plain TCP sockets, or a device's verbs
// beside them, in one run: each case and its yardstick in turn, repeated; the
// medians and the median of the pairs' ratios.
//
//   iwarp_bench [--provider iwarp|verbs] [--address ADDR] [--seconds S]
//               [--repeats N] [--cases NAME,…] [--iperf3] [--json FILE]
//   iwarp_bench --sockets [--address ADDR] [--seconds S] [--repeats N]
//               [--json FILE]
//
// --iperf3 (apt install iperf3): the bandwidth cases beside one stream of that,
// too, in the same turns. --sockets: no verbs, but plain sockets beside an
// io_uring.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/log.h"
#include "tools/bench/bench_run.h"
#include "tools/bench/iperf.h"
#include "tools/bench/raw_tcp.h"
#include "tools/bench/sockets_table.h"
#include "tools/bench/verbs_loop.h"

namespace sluice::bench {
namespace {

constexpr size_t kBlock = 64 * 1024;
constexpr size_t kSmall = 64;
constexpr uint32_t kDepth = 16;

struct Case {
  const char* name;
  const char* unit;
  bool is_latency;  // the median round trip; else a rate
  bool is_bandwidth;
  double scale;  // of what is counted, to the unit
  const char* goal;
  std::function<RunResult(const RawOptions&)> raw;
  std::function<RunResult(const VerbsOptions&)> verbs;
};

std::vector<Case> Cases() {
  return {
      {"write-64k", "GB/s", false, true, 1e-9, ">= 0.80", &RawStream,
       [](const VerbsOptions& o) {
         return VerbsStream(o, false, kBlock, kDepth);
       }},
      {"read-64k", "GB/s", false, true, 1e-9, ">= 0.80", &RawStream,
       [](const VerbsOptions& o) {
         return VerbsStream(o, true, kBlock, kDepth);
       }},
      {"latency-polling", "us", true, false, 1, "<= 1.40",
       [](const RawOptions& o) { return RawPingPong(o, kSmall, true); },
       [](const VerbsOptions& o) { return VerbsPingPong(o, kSmall, true); }},
      {"latency-sleeping", "us", true, false, 1, "<= 1.40",
       [](const RawOptions& o) { return RawPingPong(o, kSmall, false); },
       [](const VerbsOptions& o) { return VerbsPingPong(o, kSmall, false); }},
      {"messages-64", "M/s", false, false, 1e-6, ">= 0.50",
       [](const RawOptions& o) { return RawMessages(o, kSmall); },
       [](const VerbsOptions& o) { return VerbsMessages(o, kSmall); }},
  };
}

double ValueOf(const Case& each, const RunResult& run) {
  return each.is_latency ? run.percentile_us(0.5)
                         : run.per_second() * each.scale;
}

// Processor time of both sides, nanoseconds for each thing counted.
double CpuOf(const RunResult& run) {
  const auto total =
      static_cast<double>(run.active.cpu_nanos + run.passive.cpu_nanos);
  return total / static_cast<double>(std::max<uint64_t>(run.active.count, 1));
}

struct Settings {
  std::string provider = "iwarp";
  std::string address = "127.0.0.1";
  double seconds = 1;
  int repeats = 5;
  std::vector<std::string> cases;
  bool iperf3 = false;
  bool sockets = false;
  std::string json;
};

bool Report(const char* side, const RunResult& run) {
  if (run.ok()) return true;
  std::fprintf(stderr, "iwarp_bench: %s failed: %s%s\n", side,
               run.active.error.c_str(), run.passive.error.c_str());
  return false;
}

int RunCase(const Case& each, const Settings& settings, nlohmann::json* out) {
  const RawOptions raw{.address = settings.address,
                       .seconds = settings.seconds};
  VerbsOptions verbs;
  verbs.api =
      settings.provider == "iwarp" ? &VerbsApi::Iwarp() : &VerbsApi::System();
  verbs.address = settings.address;
  verbs.seconds = settings.seconds;
  std::vector<double> raw_values;
  std::vector<double> verbs_values;
  std::vector<double> ratios;
  std::vector<double> p99;
  std::vector<double> iperf_values;
  std::vector<double> iperf_ratios;
  double raw_cpu = 0;
  double verbs_cpu = 0;
  for (int i = 0; i < settings.repeats; ++i) {
    const RunResult yard = each.raw(raw);
    const RunResult ours = each.verbs(verbs);
    if (!Report("TCP", yard) || !Report("verbs", ours)) return 1;
    raw_values.push_back(ValueOf(each, yard));
    verbs_values.push_back(ValueOf(each, ours));
    ratios.push_back(verbs_values.back() / raw_values.back());
    p99.push_back(ours.percentile_us(0.99));
    if (settings.iperf3 && each.is_bandwidth) {
      const RunResult iperf = IperfStream(raw);
      if (!Report("iperf3", iperf)) return 1;
      iperf_values.push_back(ValueOf(each, iperf));
      iperf_ratios.push_back(verbs_values.back() / iperf_values.back());
    }
    raw_cpu += CpuOf(yard) / settings.repeats;
    verbs_cpu += CpuOf(ours) / settings.repeats;
  }
  std::printf("%-17s %9.3f %9.3f %-5s %6.2f  %-8s %9.2f %9.2f %8.1f\n",
              each.name, Median(raw_values), Median(verbs_values), each.unit,
              Median(ratios), each.goal, raw_cpu, verbs_cpu, Median(p99));
  if (!iperf_values.empty()) {
    std::printf("%-17s %9.3f %9.3f %-5s %6.2f  %-8s\n", "  beside iperf3",
                Median(iperf_values), Median(verbs_values), each.unit,
                Median(iperf_ratios), each.goal);
  }
  std::fflush(stdout);
  out->push_back({{"case", each.name},
                  {"provider", settings.provider},
                  {"unit", each.unit},
                  {"tcp", raw_values},
                  {"verbs", verbs_values},
                  {"ratio", Median(ratios)},
                  {"iperf3", iperf_values},
                  {"tcp_cpu_ns", raw_cpu},
                  {"verbs_cpu_ns", verbs_cpu}});
  return 0;
}

int VerbsTable(const Settings& settings, nlohmann::json* out) {
  std::printf("%-17s %9s %9s %-5s %6s  %-8s %9s %9s %8s\n", "case", "TCP",
              settings.provider.c_str(), "unit", "ratio", "goal", "TCP cpu",
              "cpu ns/1", "p99 us");
  for (const Case& each : Cases()) {
    const bool wanted = settings.cases.empty() ||
                        std::find(settings.cases.begin(), settings.cases.end(),
                                  each.name) != settings.cases.end();
    if (wanted && RunCase(each, settings, out) != 0) return 1;
  }
  return 0;
}

int Run(int argc, char** argv) {
  Settings settings;
  CLI::App app("The iWARP provider, or a device's verbs, beside plain TCP");
  app.add_option("--provider", settings.provider)
      ->check(CLI::IsMember({"iwarp", "verbs"}));
  app.add_option("--address", settings.address,
                 "an IPv4 address of this machine");
  app.add_option("--seconds", settings.seconds, "of each run; default 1");
  app.add_option("--repeats", settings.repeats, "default 5")
      ->check(CLI::Range(1, 1000));
  app.add_option("--cases", settings.cases, "some of them")->delimiter(',');
  app.add_flag("--iperf3", settings.iperf3, "bandwidth beside iperf3, too");
  app.add_flag("--sockets", settings.sockets, "plain sockets beside io_uring");
  app.add_option("--json", settings.json, "a file for the values");
  CLI11_PARSE(app, argc, argv);
  SetLogLevel(LogLevel::kWarning);
  nlohmann::json out = nlohmann::json::array();
  const int code = settings.sockets
                       ? SocketsTable({.address = settings.address,
                                       .seconds = settings.seconds},
                                      settings.repeats, &out)
                       : VerbsTable(settings, &out);
  if (code != 0) return code;
  if (!settings.json.empty()) std::ofstream(settings.json) << out.dump(2);
  return 0;
}

}  // namespace
}  // namespace sluice::bench

// NOLINTNEXTLINE(bugprone-exception-escape): what it throws, it is to die of
int main(int argc, char** argv) { return sluice::bench::Run(argc, argv); }
