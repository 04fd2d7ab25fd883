#include "target/daemon_restart.h"

#include <linux/close_range.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace sluice::target {

std::string RestartValue(const std::vector<transport::ListenAddress>& listen) {
  const auto format = [](std::string* out,
                         const transport::ListenAddress& address) {
    absl::StrAppend(out, address.ToString());
  };
  return absl::StrJoin(listen, ",", format);
}

void ApplyRestart(absl::string_view value, TargetOptions* options) {
  options->wait_for_device = true;
  options->provider = Provider::kVerbs;
  if (value.empty()) return;
  options->listen = absl::StrSplit(value, ',');
}

absl::Status RestartSelf(char** argv, const std::string& value) {
  if (setenv(kRestartVariable, value.c_str(), 1) != 0) {
    return absl::ErrnoToStatus(errno, "cannot start anew: setenv");
  }
  // Marks instead of closing: the threads still use them.
  close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  execv("/proc/self/exe", argv);
  return absl::ErrnoToStatus(
      errno, "cannot start anew: execv /proc/self/exe; start sluiced again");
}

}  // namespace sluice::target
