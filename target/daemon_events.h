// What the main thread waits for while the reactors work: signals, and word
// from the control reactor that the process must start anew.
//
// Home: the main thread. Bound: one event each call.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "blockdev/unique_fd.h"

namespace sluice::target {

enum class DaemonEvent {
  kTimeout,
  kTerminate,  // SIGTERM, SIGINT
  kStats,      // SIGUSR1
  kFlights,    // SIGUSR2
  kHangup,     // SIGHUP
  kRestart,    // RequestRestart()
};

// Blocks the signals that DaemonEvents reads, and ignores SIGPIPE: in main,
// before any thread exists.
void BlockDaemonSignals();

class DaemonEvents {
 public:
  static absl::StatusOr<std::unique_ptr<DaemonEvents>> Create();

  // The next event, kTimeout after at most `limit`. A signal to terminate comes
  // before all others.
  DaemonEvent Wait(absl::Duration limit);

  // Thread-safe.
  void RequestRestart();

 private:
  DaemonEvents() = default;

  blockdev::UniqueFd terminate_;  // signalfd
  blockdev::UniqueFd others_;     // signalfd
  blockdev::UniqueFd restart_;    // eventfd
};

// From now on a signal to terminate ends the process at once with status 1,
// and so does `limit`: what shuts down may hang. Not undone.
void ExitOnNextSignal(absl::Duration limit);

}  // namespace sluice::target
