#include "tools/bench/sockets_table.h"

#include <cstdio>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/uring_tcp.h"

namespace sluice::bench {
namespace {

constexpr size_t kBlock = 64 * 1024;
constexpr size_t kSmall = 64;

struct SocketsCase {
  std::string name;
  size_t per_operation;  // of what is counted
  std::function<RunResult(const RawOptions&)> plain;
  std::function<RunResult(const RawOptions&, const UringOptions&)> uring;
};

struct Way {
  const char* name;
  UringOptions uring;
};

constexpr Way kWays[] = {
    {"sockets", {}},
    {"multishot", {.defer = true, .multishot = true}},
    {"recv", {.defer = true, .multishot = false}},
    {"multishot coop", {.defer = false, .multishot = true}},
    {"recv coop", {.defer = false, .multishot = false}},
};
constexpr size_t kWayCount = std::size(kWays);

SocketsCase PingPong(const char* name, bool polling) {
  return {name, 1,
          [=](const RawOptions& o) { return RawPingPong(o, kSmall, polling); },
          [=](const RawOptions& o, const UringOptions& u) {
            return UringEcho(o, u, kSmall, 1, polling);
          }};
}

SocketsCase Echo(size_t connections, bool polling) {
  return {(polling ? "echo-polling-" : "echo-") + std::to_string(connections),
          1,
          [=](const RawOptions& o) {
            return RawEcho(o, kSmall, connections, polling);
          },
          [=](const RawOptions& o, const UringOptions& u) {
            return UringEcho(o, u, kSmall, connections, polling);
          }};
}

std::vector<SocketsCase> Cases() {
  std::vector<SocketsCase> cases = {
      PingPong("latency-polling", true),
      PingPong("latency-sleeping", false),
      {"stream-64k", kBlock, &RawStream, &UringStream},
  };
  for (const bool polling : {false, true}) {
    for (const size_t connections : {1u, 2u, 4u, 8u, 16u, 64u}) {
      cases.push_back(Echo(connections, polling));
    }
  }
  return cases;
}

// Of both sides, for each operation.
struct Costs {
  std::vector<double> micros;
  std::vector<double> calls;
  std::vector<double> cpu_nanos;

  bool Add(const SocketsCase& each, const RunResult& run) {
    if (!run.ok() || run.active.count < each.per_operation) {
      std::fprintf(stderr, "iwarp_bench: %s failed: %s%s\n", each.name.c_str(),
                   run.active.error.c_str(), run.passive.error.c_str());
      return false;
    }
    const double operations = static_cast<double>(run.active.count) /
                              static_cast<double>(each.per_operation);
    micros.push_back(static_cast<double>(run.active.wall_nanos) / 1e3 /
                     operations);
    calls.push_back(static_cast<double>(run.active.calls + run.passive.calls) /
                    operations);
    cpu_nanos.push_back(
        static_cast<double>(run.active.cpu_nanos + run.passive.cpu_nanos) /
        operations);
    return true;
  }
};

double MedianRatio(std::vector<double> ours, const std::vector<double>& plain) {
  for (size_t i = 0; i < ours.size(); ++i) ours[i] /= plain[i];
  return Median(std::move(ours));
}

void Print(const SocketsCase& each, const char* way, const Costs& costs,
           const Costs& plain, nlohmann::json* out) {
  const double time = MedianRatio(costs.micros, plain.micros);
  const double cpu = MedianRatio(costs.cpu_nanos, plain.cpu_nanos);
  std::printf("%-17s %-14s %9.3f %6.2f %9.2f %9.0f %6.2f\n", each.name.c_str(),
              way, Median(costs.micros), time, Median(costs.calls),
              Median(costs.cpu_nanos), cpu);
  out->push_back({{"case", each.name},
                  {"way", way},
                  {"us", costs.micros},
                  {"calls", costs.calls},
                  {"cpu_ns", costs.cpu_nanos},
                  {"time_ratio", time},
                  {"cpu_ratio", cpu}});
}

}  // namespace

int SocketsTable(const RawOptions& options, int repeats, nlohmann::json* out) {
  RawOptions raw = options;
  raw.block_bytes = kBlock;
  std::printf("%-17s %-14s %9s %6s %9s %9s %6s\n", "case", "way", "us/1",
              "ratio", "calls/1", "cpu ns/1", "ratio");
  for (const SocketsCase& each : Cases()) {
    Costs costs[kWayCount];
    for (int i = 0; i < repeats; ++i) {
      // Each begins once: what comes in periods does not meet the same one.
      for (size_t k = 0; k < kWayCount; ++k) {
        const size_t way = (k + static_cast<size_t>(i)) % kWayCount;
        const RunResult run =
            way == 0 ? each.plain(raw) : each.uring(raw, kWays[way].uring);
        if (!costs[way].Add(each, run)) return 1;
      }
    }
    for (size_t way = 0; way < kWayCount; ++way) {
      Print(each, kWays[way].name, costs[way], costs[0], out);
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace sluice::bench
