// sluice-cqbench: how a reactor should wait for completions, measured. One end
// answers messages with the transport's CQ engine, the other sends them, at a
// share of what polling reaches; one table of all ways of waiting, in turns.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "tools/bench/child_process.h"
#include "tools/bench/cq/cells.h"
#include "tools/bench/cq/control.h"
#include "tools/bench/cq/cq_client.h"
#include "tools/bench/cq/cq_server.h"
#include "tools/bench/cq/report.h"

namespace sluice::bench {
namespace {

constexpr char kListening[] = "listening ";
constexpr absl::Duration kStartWait = absl::Seconds(30);

struct Settings {
  std::string provider = "iwarp";
  std::string address = "127.0.0.1";
  std::string serve;    // "ADDR[:PORT]": only this end
  std::string connect;  // "ADDR:PORT" of that end
  bool once = false;
  std::vector<std::string> modes = {"poll", "event", "fixed", "hybrid"};
  std::vector<int> loads = {0, 1, 10, 25, 50, 75, 90, 100};
  std::vector<double> waves_ms = {0.1, 1, 10, 100};
  int wave_load = 50;
  double fixed_us = 20;
  double max_spin_us = 0;
  double max_spin_share = 1;
  CqServerOptions server;
  CqClientOptions client;
  CqPlan plan;
  uint64_t soak = 0;  // messages in each mode; 0: the table
  std::string json;
  std::string plots;
};

void Describe(CLI::App* app, Settings* settings) {
  app->add_option("--provider", settings->provider,
                  "iwarp (default), or verbs: this machine's RDMA devices")
      ->check(CLI::IsMember({"iwarp", "verbs"}));
  app->add_option("--address", settings->address,
                  "IPv4 address of this machine for both ends; default "
                  "127.0.0.1");
  auto* serve = app->add_option("--serve", settings->serve,
                                "be the end under test: ADDR[:PORT]");
  app->add_flag("--once", settings->once, "with --serve: for one client");
  app->add_option("--connect", settings->connect,
                  "ADDR:PORT of a sluice-cqbench --serve; else one is started")
      ->excludes(serve);
  app->add_option("--modes", settings->modes)
      ->delimiter(',')
      ->check(CLI::IsMember({"poll", "event", "fixed", "hybrid"}));
  app->add_option("--loads", settings->loads,
                  "percent of what polling reaches; 100: as fast as it goes")
      ->delimiter(',')
      ->check(CLI::Range(0, 100));
  app->add_option("--waves", settings->waves_ms,
                  "milliseconds on and off, of square waves")
      ->delimiter(',');
  app->add_option("--wave-load", settings->wave_load,
                  "percent, while a wave is on; default 50")
      ->check(CLI::Range(1, 99));
  app->add_option("--size", settings->client.message_bytes,
                  "bytes of a message; default 128")
      ->check(CLI::Range(64, 16384));
  app->add_option("--depth", settings->client.depth,
                  "messages in flight on each queue pair; default 32")
      ->check(CLI::Range(1, 1024));
  app->add_option("--queue-pairs", settings->client.queue_pairs, "default 4")
      ->check(CLI::Range(1, 256));
  app->add_option("--cpu", settings->server.cpu,
                  "processor of the end under test; default 1 where there are "
                  "two");
  app->add_option("--fixed-us", settings->fixed_us,
                  "how long `fixed` spins; default 20");
  app->add_option("--max-spin-us", settings->max_spin_us,
                  "ceiling of hybrid's spins; default sluiced's");
  app->add_option("--max-spin-share", settings->max_spin_share,
                  "of a processor, for hybrid's spins; default 1")
      ->check(CLI::Range(0.0, 1.0));
  app->add_option("--repeats", settings->plan.repeats, "default 7")
      ->check(CLI::Range(1, 1000));
  app->add_option("--seconds", settings->plan.seconds,
                  "of each run; default 0.5")
      ->check(CLI::PositiveNumber);
  app->add_option("--soak", settings->soak,
                  "instead of the table: so many messages in each mode, one at "
                  "a time with random pauses; fails when a completion went "
                  "unannounced");
  app->add_option("--json", settings->json, "file for all values");
  app->add_option("--plots", settings->plots, "folder for SVG plots");
}

std::vector<CqMode> ModesOf(const Settings& settings) {
  std::vector<CqMode> modes;
  for (const std::string& name : settings.modes) {
    CqMode mode = {name, {{"mode", name == "fixed" ? "hybrid" : name}}};
    if (name == "fixed") mode.spin["fixed_us"] = settings.fixed_us;
    if (settings.max_spin_us > 0) {
      mode.spin["max_spin_us"] = settings.max_spin_us;
    }
    mode.spin["max_spin_share"] = settings.max_spin_share;
    modes.push_back(std::move(mode));
  }
  return modes;
}

std::vector<CqCellLoad> LoadsOf(const Settings& settings) {
  std::vector<CqCellLoad> loads;
  loads.reserve(settings.loads.size() + settings.waves_ms.size());
  for (const int load : settings.loads) {
    loads.push_back({absl::StrCat(load), load / 100.0, 0});
  }
  for (const double wave : settings.waves_ms) {
    if (wave <= 0) continue;
    loads.push_back({absl::StrCat("wave-", wave, "ms"),
                     settings.wave_load / 100.0,
                     static_cast<int64_t>(wave * 1e6)});
  }
  return loads;
}

absl::Status Serve(const VerbsApi& api, Settings* settings) {
  settings->server.listen = settings->serve;
  settings->server.message_bytes = settings->client.message_bytes;
  return RunCqServer(api, settings->server, settings->once, [](uint16_t port) {
    std::printf("%s%u\n", kListening, port);
    std::fflush(stdout);
  });
}

// A process of this program, so that its processor time is its own.
absl::StatusOr<std::unique_ptr<ChildProcess>> StartServer(Settings* settings) {
  std::vector<std::string> argv = {"/proc/self/exe",
                                   "--serve",
                                   settings->address + ":0",
                                   "--once",
                                   "--provider",
                                   settings->provider,
                                   "--size",
                                   absl::StrCat(settings->client.message_bytes),
                                   "--cpu",
                                   absl::StrCat(settings->server.cpu)};
  SLUICE_ASSIGN_OR_RETURN(auto child, ChildProcess::Start(argv));
  const std::string line = child->ReadLine(kStartWait);
  absl::string_view rest = line;
  uint32_t port = 0;
  if (!absl::ConsumePrefix(&rest, kListening) ||
      !absl::SimpleAtoi(rest, &port)) {
    return absl::UnavailableError(
        absl::StrCat("the end under test does not start: ", line));
  }
  settings->connect = absl::StrCat(settings->address, ":", port);
  return child;
}

absl::Status Soak(ControlConnection* control, CqClient* client,
                  const Settings& settings) {
  double rescued = 0;
  for (const CqMode& mode : settings.plan.modes) {
    SLUICE_ASSIGN_OR_RETURN(const CqSoak soak,
                            RunSoak(control, client, mode, settings.soak));
    std::printf(
        "%-7s %9llu messages, %6.2f us each, %.0f sleeps, %.0f found "
        "after arming, %.0f rescued\n",
        mode.name.c_str(), static_cast<unsigned long long>(soak.messages),
        1e6 * soak.seconds / static_cast<double>(soak.messages), soak.sleeps,
        soak.rearm_found, soak.rescued);
    std::fflush(stdout);
    rescued += soak.rescued;
  }
  if (rescued == 0) return absl::OkStatus();
  return absl::DataLossError("completions went unannounced");
}

absl::Status Measure(const VerbsApi& api, Settings* settings) {
  if (settings->server.cpu < 0 && std::thread::hardware_concurrency() > 1) {
    settings->server.cpu = 1;
  }
  std::unique_ptr<ChildProcess> child;
  if (settings->connect.empty()) {
    SLUICE_ASSIGN_OR_RETURN(child, StartServer(settings));
  }
  SLUICE_ASSIGN_OR_RETURN(const transport::ListenAddress address,
                          transport::ParseListenAddress(settings->connect, 0));
  SLUICE_ASSIGN_OR_RETURN(auto control, ControlConnection::Connect(address));
  SLUICE_ASSIGN_OR_RETURN(const std::string line, control->ReadLine());
  const auto hello =
      nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!hello.is_object() ||
      hello.value("message_bytes", 0u) < settings->client.message_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the other end takes smaller messages: ", line));
  }
  settings->client.address = transport::AddressText(address.address);
  settings->client.port = hello.value("port", uint16_t{0});
  SLUICE_ASSIGN_OR_RETURN(auto client,
                          CqClient::Connect(api, settings->client));
  settings->plan.modes = ModesOf(*settings);
  if (settings->soak > 0) return Soak(control.get(), client.get(), *settings);
  settings->plan.loads = LoadsOf(*settings);
  SLUICE_ASSIGN_OR_RETURN(const std::vector<CqCell> cells,
                          RunCells(control.get(), client.get(), settings->plan,
                                   [](const std::string& text) {
                                     std::fprintf(stderr, "%s\n", text.c_str());
                                   }));
  std::printf("%s: %u queue pairs, depth %u, messages of %u bytes\n",
              settings->provider.c_str(), settings->client.queue_pairs,
              settings->client.depth, settings->client.message_bytes);
  PrintCells(cells);
  PrintGoal(cells);
  if (!settings->json.empty()) {
    std::ofstream out(settings->json);
    out << CellsJson(settings->provider, cells).dump(1) << "\n";
    if (!out.good()) return absl::UnknownError("cannot write the JSON file");
  }
  if (!settings->plots.empty()) return PlotCells(settings->plots, cells);
  return absl::OkStatus();
}

int Run(int argc, char** argv) {
  Settings settings;
  CLI::App app(
      "Ways of waiting for completions, measured: messages/s, latency, "
      "processor time");
  Describe(&app, &settings);
  CLI11_PARSE(app, argc, argv);
  SetLogLevel(LogLevel::kWarning);
  const VerbsApi& api =
      settings.provider == "iwarp" ? VerbsApi::Iwarp() : VerbsApi::System();
  const absl::Status status =
      settings.serve.empty() ? Measure(api, &settings) : Serve(api, &settings);
  if (status.ok()) return 0;
  std::fprintf(stderr, "sluice-cqbench: %s\n", status.ToString().c_str());
  return 2;
}

}  // namespace
}  // namespace sluice::bench

// NOLINTNEXTLINE(bugprone-exception-escape): what it throws, it is to die of
int main(int argc, char** argv) { return sluice::bench::Run(argc, argv); }
