#include "target/daemon.h"

#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "target/daemon_events.h"
#include "target/daemon_memory.h"
#include "target/daemon_ready.h"
#include "target/daemon_restart.h"
#include "target/flags.h"
#include "target/provider.h"
#include "target/stats_json.h"
#include "target/target.h"

namespace sluice::target {
namespace {

// While the RDMA device is away.
constexpr absl::Duration kRetryPeriod = absl::Milliseconds(500);
// After a restart of ourselves, other errors than a missing device may pass:
// the kernel still lets go of files and ports, udev sets permissions.
constexpr absl::Duration kSettleTime = absl::Seconds(10);
// SIGUSR2: so many records of each completion queue, and work requests that
// have been out for so long.
constexpr uint32_t kFlightsTold = 64;
constexpr absl::Duration kOverdue = absl::Seconds(1);
// What Stop may take beyond the drain timeout before it counts as hung.
constexpr absl::Duration kStopGrace = absl::Seconds(10);

// In one piece, however long: who reads the file, or logs to the same one,
// finds no half line. A reader that is gone is no reason to stop serving.
void Print(const std::string& text) {
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t count =
        write(STDOUT_FILENO, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    written += static_cast<size_t>(count);
  }
}

class Daemon {
 public:
  Daemon(const TargetOptions& options, const VerbsApi& api, char** argv,
         std::unique_ptr<DaemonEvents> events)
      : options_(options), api_(api), argv_(argv), events_(std::move(events)) {}

  absl::Status Run() {
    SLUICE_ASSIGN_OR_RETURN(target_, Start());
    if (target_ == nullptr) return absl::OkStatus();  // told to end meanwhile
    DaemonEvents* events = events_.get();
    target_->set_on_device_stuck([events](const std::string& device) {
      SLUICE_LOG(kWarning) << "device is gone and librdmacm cannot let go of "
                              "it; starting anew"
                           << KV("device", device);
      events->RequestRestart();
    });
    SayReady();
    return Serve();
  }

 private:
  // The target, or null when a signal came first.
  absl::StatusOr<std::unique_ptr<Target>> Start() {
    absl::Time give_up = absl::Now() + kSettleTime;
    std::string said;
    while (true) {
      auto target = Target::Start(options_, api_);
      if (target.ok() || !options_.wait_for_device) return target;
      const absl::Status& status = target.status();
      if (absl::IsNotFound(status)) give_up = absl::Now() + kSettleTime;
      if (absl::Now() >= give_up) return status;
      const std::string message(status.message());
      if (message != said) {
        SLUICE_LOG(kInfo) << "waiting to start" << KV("because", message);
        sd_notifyf(0, "STATUS=waiting: %s", message.c_str());
        said = message;
      }
      if (events_->Wait(kRetryPeriod) == DaemonEvent::kTerminate) {
        return std::unique_ptr<Target>();
      }
    }
  }

  void SayReady() {
    std::vector<std::string> nqns;
    for (const auto& subsystem : target_->subsystems()) {
      if (subsystem->discovery()) continue;
      nqns.emplace_back(subsystem->nqn().view());
    }
    Print(ReadyLines(target_->addresses(), nqns, FindLocalHosts()));
    sd_notifyf(0,
               "READY=1\nSTATUS=exporting %zu subsystem(s) on %zu address(es)",
               nqns.size(), target_->addresses().size());
  }

  absl::Status Serve() {
    const int64_t interval = absl::ToInt64Nanoseconds(options_.stats_interval);
    int64_t next_stats = Clock::Real()->NowNanos() + interval;
    while (true) {
      const int64_t left = next_stats - Clock::Real()->NowNanos();
      if (interval > 0 && left <= 0) {
        PrintStats();
        next_stats += (1 - left / interval) * interval;  // none to catch up
        continue;
      }
      switch (events_->Wait(interval > 0 ? absl::Nanoseconds(left)
                                         : absl::InfiniteDuration())) {
        case DaemonEvent::kTerminate:
          Stop();
          return absl::OkStatus();
        case DaemonEvent::kRestart:
          return Restart();
        case DaemonEvent::kStats:
          PrintStats();
          break;
        case DaemonEvent::kFlights: {
          const std::string text =
              target_->DescribeFlights(kFlightsTold, kOverdue);
          std::fwrite(text.data(), 1, text.size(), stderr);
          break;
        }
        case DaemonEvent::kHangup:
          Reload();
          break;
        case DaemonEvent::kTimeout:
          break;
      }
    }
  }

  void PrintStats() {
    Print(StatsJson(target_->Snapshot(), absl::Now()) + "\n");
  }

  // How the reactors wait; all else takes a restart.
  void Reload() {
    int argc = 0;
    while (argv_[argc] != nullptr) ++argc;
    const absl::StatusOr<Invocation> now = ParseFlags(argc, argv_);
    if (!now.ok()) {
      SLUICE_LOG(kError) << "configuration not taken over"
                         << KV("because", now.status().message());
      return;
    }
    for (size_t i = 0; i < options_.reactor_count(); ++i) {
      target_->SetSpin(i, now->options.SpinOf(i));
    }
    SLUICE_LOG(kInfo) << "configuration read again: poll modes and spin limits "
                         "hold now, the rest after a restart";
  }

  void Stop() {
    SLUICE_LOG(kInfo) << "stopping"
                      << KV("drain_timeout_s",
                            absl::ToDoubleSeconds(options_.drain_timeout));
    sd_notify(0, "STOPPING=1");
    ExitOnNextSignal(options_.drain_timeout + kStopGrace);
    if (!target_->Stop()) {
      SLUICE_LOG(kError) << "some I/O never came back from its disk; its hosts "
                            "will retry it elsewhere or later; exiting at once";
      std::fflush(stdout);
      _exit(0);
    }
    target_.reset();
    SLUICE_LOG(kInfo) << "stopped";
  }

  absl::Status Restart() {
    sd_notify(0, "STATUS=starting anew: the RDMA device is gone");
    SLUICE_LOG(kInfo) << "starting anew: hosts reconnect when the RDMA device "
                         "is back";
    std::fflush(stdout);
    return RestartSelf(argv_, RestartValue(target_->addresses()));
  }

  const TargetOptions& options_;
  const VerbsApi& api_;
  char** const argv_;
  const std::unique_ptr<DaemonEvents> events_;
  std::unique_ptr<Target> target_;
};

}  // namespace

absl::Status RunDaemon(const TargetOptions& options, char** argv) {
  SLUICE_ASSIGN_OR_RETURN(const PickedProvider provider, PickProvider(options));
  const LockedMemoryLimit limit = RaiseLockedMemoryLimit();
  if (provider.pins_memory) {
    SLUICE_RETURN_IF_ERROR(CheckLockedMemory(options, limit));
  }
  SLUICE_LOG(kInfo) << "provider " << provider.api->name
                    << KV("why", provider.why);
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<DaemonEvents> events,
                          DaemonEvents::Create());
  TargetOptions with_memory = options;
  with_memory.lend_memory =
      !provider.pins_memory || limit.soft_bytes == UINT64_MAX;
  Daemon daemon(with_memory, *provider.api, argv, std::move(events));
  return daemon.Run();
}

}  // namespace sluice::target
