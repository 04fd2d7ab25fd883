// The table of nvmf_bench --fairness: what a queue with one command at a time
// gets while another is at full rate, and how long admin commands take then.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "tools/bench/own_target.h"

namespace sluice::bench {

struct FairnessOptions {
  OwnTargetOptions target;
  uint32_t greedy_depth = 128;
  uint32_t bytes = 4096;
  double seconds = 0.5;  // of each load, in turns
  int repeats = 7;
  std::string json;  // a file for the values
};

absl::Status RunFairness(const FairnessOptions& options);

}  // namespace sluice::bench
