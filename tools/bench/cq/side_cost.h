// What a thread has cost so far: processor time and system calls; and what the
// machine's processor packages have drawn.
//
// Made on the thread that it counts, read on any.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace sluice::bench {

struct SideCost {
  int64_t cpu_nanos = 0;
  // Where the kernel lets us count them (perf's raw_syscalls:sys_enter).
  std::optional<uint64_t> system_calls;
};

class CostMeter {
 public:
  CostMeter();
  ~CostMeter();
  CostMeter(const CostMeter&) = delete;
  CostMeter& operator=(const CostMeter&) = delete;

  SideCost Read() const;

 private:
  clockid_t clock_ = 0;
  const int calls_fd_;
};

// Of all packages since some time, in microjoules (RAPL); nothing where the
// machine does not say.
std::optional<uint64_t> EnergyMicrojoules();

}  // namespace sluice::bench
