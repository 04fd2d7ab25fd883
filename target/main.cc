// sluiced: exit 0 when it did what it was told, 2 for flags and TOML, 1 for
// everything else that fails, with one line on stderr.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/ascii.h"
#include "core/log.h"
#include "target/daemon.h"
#include "target/daemon_events.h"
#include "target/daemon_ready.h"
#include "target/daemon_restart.h"
#include "target/flags.h"
#include "target/subsystem.h"

namespace sluice::target {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

// One line, whatever a path or a name in it holds.
int Fail(int code, const absl::Status& status) {
  std::string line(status.message());
  for (char& c : line) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = '?';
  }
  std::fprintf(stderr, "sluiced: %s\n", line.c_str());
  return code;
}

// Where a standard descriptor is closed, the next file opened (an exported
// disk, say) would take its place, and what is printed would go there.
bool HoldStandardDescriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    if (open("/dev/null", O_RDWR) != fd) return false;
  }
  return true;
}

int Main(int argc, char** argv) {
  if (!HoldStandardDescriptors()) return kExitFailure;
  BlockDaemonSignals();
  absl::StatusOr<Invocation> invocation = ParseFlags(argc, argv);
  if (!invocation.ok()) return Fail(kExitUsage, invocation.status());
  if (!invocation->answer.empty()) {
    std::fputs(invocation->answer.c_str(), stdout);
    return 0;
  }
  TargetOptions& options = invocation->options;
  SetLogLevel(options.log_level);
  if (invocation->check_config) {
    const std::string nqn = DefaultNqn(ReadMachineId());
    std::fputs(DescribeExports(options, nqn).c_str(), stdout);
    return 0;
  }
  if (const char* restarted = std::getenv(kRestartVariable)) {
    ApplyRestart(restarted, &options);
    unsetenv(kRestartVariable);
  }
  const absl::Status status = RunDaemon(options, argv);
  return status.ok() ? 0 : Fail(kExitFailure, status);
}

}  // namespace
}  // namespace sluice::target

int main(int argc, char** argv) { return sluice::target::Main(argc, argv); }
