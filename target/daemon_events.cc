#include "target/daemon_events.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <initializer_list>

#include "absl/status/status.h"
#include "core/signals.h"

namespace sluice::target {
namespace {

sigset_t SetOf(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

blockdev::UniqueFd OpenSignals(std::initializer_list<int> signals) {
  const sigset_t set = SetOf(signals);
  return blockdev::UniqueFd(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
}

// The next signal of the descriptor, 0 when there is none.
int TakeSignal(const blockdev::UniqueFd& fd) {
  signalfd_siginfo info;
  if (read(fd.get(), &info, sizeof(info)) != sizeof(info)) return 0;
  return static_cast<int>(info.ssi_signo);
}

// In a signal handler: only write and _exit.
void ExitAtOnce(int signal) {
  constexpr char kSecond[] = "sluiced: second signal, exiting at once\n";
  constexpr char kHung[] = "sluiced: the shutdown hangs, exiting at once\n";
  const ssize_t written =
      signal == SIGALRM ? write(STDERR_FILENO, kHung, sizeof(kHung) - 1)
                        : write(STDERR_FILENO, kSecond, sizeof(kSecond) - 1);
  static_cast<void>(written);
  _exit(1);
}

}  // namespace

void BlockDaemonSignals() {
  BlockSignals({SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP});
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a write past the limit ends in a status
}

absl::StatusOr<std::unique_ptr<DaemonEvents>> DaemonEvents::Create() {
  std::unique_ptr<DaemonEvents> events(new DaemonEvents);
  events->terminate_ = OpenSignals({SIGTERM, SIGINT});
  events->others_ = OpenSignals({SIGUSR1, SIGUSR2, SIGHUP});
  events->restart_ = blockdev::UniqueFd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!events->terminate_.ok() || !events->others_.ok() ||
      !events->restart_.ok()) {
    return absl::ErrnoToStatus(errno, "signalfd or eventfd");
  }
  return events;
}

DaemonEvent DaemonEvents::Wait(absl::Duration limit) {
  pollfd fds[] = {{terminate_.get(), POLLIN, 0},
                  {others_.get(), POLLIN, 0},
                  {restart_.get(), POLLIN, 0}};
  const bool for_ever = limit == absl::InfiniteDuration();
  const timespec timeout =
      absl::ToTimespec(std::max(limit, absl::ZeroDuration()));
  if (ppoll(fds, std::size(fds), for_ever ? nullptr : &timeout, nullptr) < 0) {
    return DaemonEvent::kTimeout;  // EINTR: the caller looks at the time
  }
  if (TakeSignal(terminate_) != 0) return DaemonEvent::kTerminate;
  eventfd_t count = 0;
  if (eventfd_read(restart_.get(), &count) == 0) return DaemonEvent::kRestart;
  switch (TakeSignal(others_)) {
    case SIGUSR1:
      return DaemonEvent::kStats;
    case SIGUSR2:
      return DaemonEvent::kFlights;
    case SIGHUP:
      return DaemonEvent::kHangup;
    default:
      return DaemonEvent::kTimeout;
  }
}

void DaemonEvents::RequestRestart() { eventfd_write(restart_.get(), 1); }

void ExitOnNextSignal(absl::Duration limit) {
  struct sigaction action {};
  action.sa_handler = &ExitAtOnce;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGALRM, &action, nullptr);
  // Of this thread; the others keep theirs blocked.
  const sigset_t set = SetOf({SIGTERM, SIGINT, SIGALRM});
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  alarm(static_cast<unsigned>(
      absl::ToInt64Seconds(absl::Ceil(limit, absl::Seconds(1)))));
}

}  // namespace sluice::target
