#include "tools/bench/cq/side_cost.h"

#include <linux/perf_event.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace sluice::bench {
namespace {

// Of the tracepoint; nothing where the file system is not mounted or not ours
// to read.
std::optional<uint64_t> SystemCallEvent() {
  for (const char* root :
       {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}) {
    uint64_t id = 0;
    if (std::ifstream(std::string(root) +
                      "/events/raw_syscalls/sys_enter/id") >>
        id) {
      return id;
    }
  }
  return std::nullopt;
}

// Of this thread.
int OpenCallCounter() {
  const std::optional<uint64_t> event = SystemCallEvent();
  if (!event) return -1;
  perf_event_attr attr = {};
  attr.size = sizeof(attr);
  attr.type = PERF_TYPE_TRACEPOINT;
  attr.config = *event;
  return static_cast<int>(
      syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

}  // namespace

CostMeter::CostMeter() : calls_fd_(OpenCallCounter()) {
  pthread_getcpuclockid(pthread_self(), &clock_);
}

CostMeter::~CostMeter() {
  if (calls_fd_ >= 0) close(calls_fd_);
}

SideCost CostMeter::Read() const {
  SideCost cost;
  timespec cpu = {};
  clock_gettime(clock_, &cpu);
  cost.cpu_nanos = int64_t{cpu.tv_sec} * 1'000'000'000 + cpu.tv_nsec;
  uint64_t calls = 0;
  if (calls_fd_ >= 0 && read(calls_fd_, &calls, sizeof(calls)) ==
                            static_cast<ssize_t>(sizeof(calls))) {
    cost.system_calls = calls;
  }
  return cost;
}

std::optional<uint64_t> EnergyMicrojoules() {
  namespace fs = std::filesystem;
  std::error_code error;
  uint64_t total = 0;
  bool any = false;
  for (const auto& zone :
       fs::directory_iterator("/sys/class/powercap", error)) {
    // Packages only: "intel-rapl:0", not its parts "intel-rapl:0:0".
    const std::string name = zone.path().filename();
    const size_t colon = name.find(':');
    if (colon == std::string::npos ||
        name.find(':', colon + 1) != std::string::npos) {
      continue;
    }
    uint64_t value = 0;
    if (std::ifstream(zone.path() / "energy_uj") >> value) {
      total += value;
      any = true;
    }
  }
  if (!any) return std::nullopt;
  return total;
}

}  // namespace sluice::bench
