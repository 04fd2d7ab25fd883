// What an operator should know about the processors that reactors were given.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/spin_policy.h"

namespace sluice::target {

struct CoreFacts {
  int cpus = 1;          // of the machine
  std::string isolated;  // as /sys/devices/system/cpu/isolated: "2-3", or ""
};

// Of this machine. Blocks as files do.
CoreFacts ReadCoreFacts();

// One sentence each, to be logged as warnings: a poller on processor 0, which
// takes interrupts and the kernel's own work; isolated processors that are left
// idle, or used by some reactors only; polling that starves all else.
std::vector<std::string> CoreAdvice(const std::vector<int>& cores,
                                    const CoreFacts& facts, PollMode mode,
                                    uint32_t realtime_priority);

}  // namespace sluice::target
