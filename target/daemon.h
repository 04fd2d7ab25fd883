// sluiced between its command line and its exit: starts the target, tells the
// operator and systemd, prints counters, stops or starts anew.
#pragma once

#include "absl/status/status.h"
#include "target/options.h"

namespace sluice::target {

// Runs in the main thread until a signal ends it: OK, the program exits with
// 0. Errors are one line that says what to do: it exits with 1.
// BlockDaemonSignals() was called; `argv` is for starting anew. `options` are
// valid. Does not return when I/O never came back or the device is stuck.
absl::Status RunDaemon(const TargetOptions& options, char** argv);

}  // namespace sluice::target
