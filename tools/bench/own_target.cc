#include "tools/bench/own_target.h"

#include <cstdlib>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/status_macros.h"

namespace sluice::bench {
namespace {

constexpr char kListening[] = "listening rdma 127.0.0.1:";
constexpr absl::Duration kStartWait = absl::Seconds(30);

}  // namespace

absl::StatusOr<OwnTarget> StartOwnTarget(const OwnTargetOptions& options) {
  std::vector<std::string> argv = {
      options.sluiced, "--provider",        "iwarp",
      "--export",      options.export_spec, "--nqn",
      OwnTarget::kNqn, "--listen",          "127.0.0.1:0",
      "--poll-mode",   options.poll_mode,   "--log-level",
      "warning"};
  if (std::thread::hardware_concurrency() > 1) {
    argv.insert(argv.end(), {"--cores", "1"});
  }
  argv.insert(argv.end(), options.flags.begin(), options.flags.end());
  OwnTarget target;
  SLUICE_ASSIGN_OR_RETURN(target.process, ChildProcess::Start(argv));
  const std::string line = target.process->ReadLine(kStartWait);
  absl::string_view rest = line;
  if (!absl::ConsumePrefix(&rest, kListening)) {
    return absl::UnavailableError(
        absl::StrCat(options.sluiced, " does not listen: ", line));
  }
  target.port = static_cast<uint16_t>(std::atoi(rest.data()));
  return target;
}

}  // namespace sluice::bench
