#include "tools/bench/iperf.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "tools/bench/child_process.h"

namespace sluice::bench {
namespace {

constexpr absl::Duration kStartWait = absl::Seconds(5);

RunResult Failed(const std::string& why) {
  RunResult result;
  result.active.ok = false;
  result.active.error = why;
  return result;
}

// One that was free a moment ago; empty: there is none such address.
std::string FreePort(const std::string& address) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at = Address(address, 0);
  socklen_t bytes = sizeof(at);
  auto* generic = reinterpret_cast<sockaddr*>(&at);
  const bool bound =
      bind(fd, generic, bytes) == 0 && getsockname(fd, generic, &bytes) == 0;
  close(fd);
  return bound ? std::to_string(ntohs(at.sin_port)) : "";
}

void Pin(std::vector<std::string>* argv, const char* cpu) {
  if (std::thread::hardware_concurrency() < 2) return;
  argv->insert(argv->end(), {"-A", cpu});
}

// What the client says in JSON.
RunResult Parse(const std::string& text) {
  const nlohmann::json report = nlohmann::json::parse(text, nullptr, false);
  if (report.is_discarded() || !report.contains("end") ||
      !report["end"].contains("sum_received")) {
    return Failed("iperf3 is not installed, or failed: " + text.substr(0, 200));
  }
  const nlohmann::json& received = report["end"]["sum_received"];
  const nlohmann::json& cpu = report["end"]["cpu_utilization_percent"];
  const double nanos = received.value("seconds", 1.0) * 1e9;
  RunResult result;
  result.active.count = received.value("bytes", uint64_t{0});
  result.active.wall_nanos = static_cast<int64_t>(nanos);
  result.active.cpu_nanos =
      static_cast<int64_t>(nanos * cpu.value("host_total", 0.0) / 100);
  result.passive.cpu_nanos =
      static_cast<int64_t>(nanos * cpu.value("remote_total", 0.0) / 100);
  return result;
}

}  // namespace

RunResult IperfStream(const RawOptions& options) {
  const std::string port = FreePort(options.address);
  if (port.empty()) return Failed("no address " + options.address);
  std::vector<std::string> server_argv = {
      "iperf3", "-s", "-1", "--forceflush", "-B", options.address, "-p", port};
  Pin(&server_argv, "1");
  const auto server = ChildProcess::Start(server_argv);
  if (!server.ok()) return Failed(server.status().ToString());
  std::string line;
  do {
    line = (*server)->ReadLine(kStartWait);
  } while (!line.empty() && !absl::StrContains(line, "listening"));

  const auto seconds =
      static_cast<int>(std::ceil(std::max(options.seconds, 1.0)));
  std::vector<std::string> client_argv = {
      "iperf3", "-c", options.address,         "-p",
      port,     "-t", std::to_string(seconds), "-J"};
  Pin(&client_argv, "0");
  const auto client = ChildProcess::Start(client_argv);
  if (!client.ok()) return Failed(client.status().ToString());
  const RunResult result = Parse((*client)->ReadAll());
  (void)(*client)->Finish(0);
  // It serves one client and ends, if one came.
  (void)(*server)->Finish(result.ok() ? 0 : SIGTERM);
  return result;
}

}  // namespace sluice::bench
