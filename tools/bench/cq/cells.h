// The cells of the table: a way of waiting and a load each, measured in turns,
// and what came of it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/bench/cq/control.h"
#include "tools/bench/cq/cq_client.h"

namespace sluice::bench {

// A way of waiting: "poll", "event", "hybrid", or "fixed", which spins for a
// fixed time.
struct CqMode {
  std::string name;
  nlohmann::json spin;  // as the server takes it
};

struct CqCellLoad {
  std::string name;  // "0" to "100" in percent, or "wave-1ms"
  double share = 0;  // of the rate that polling reaches; 1: closed loop
  int64_t half_period_nanos = 0;
};

// One run of one cell.
struct CqSample {
  double per_second = 0;
  double p50_us = 0;
  double p99_us = 0;
  double p999_us = 0;
  double after_pause_p99_us = 0;  // waves only
  double cpu_us_per_message = 0;  // of the server; 0 without messages
  double cpu_share = 0;           // of a processor, the server's
  double client_cpu_share = 0;
  double sleeps_per_second = 0;
  double rescued = 0;
  std::optional<double> calls_per_second;
  std::optional<double> watts;
};

struct CqCell {
  std::string mode;
  CqCellLoad load;
  std::vector<CqSample> samples;

  // Of one figure over the repeats.
  double MedianOf(double CqSample::*figure) const;
  double MinOf(double CqSample::*figure) const;
  double MaxOf(double CqSample::*figure) const;
};

struct CqPlan {
  std::vector<CqMode> modes;
  std::vector<CqCellLoad> loads;
  int repeats = 7;
  double seconds = 0.5;  // of each run; slow waves take longer
  double warmup_seconds = 0.1;
};

// One message at a time with random pauses around what a wake-up costs: every
// completion must wake the reactor or be seen by it.
struct CqSoak {
  std::string mode;
  uint64_t messages = 0;
  double seconds = 0;
  double sleeps = 0;
  double rearm_found = 0;  // between arming and sleeping
  double rescued = 0;      // nobody announced them: a bug
};
// `messages` of them; errors as CqClient::Run.
absl::StatusOr<CqSoak> RunSoak(ControlConnection* control, CqClient* client,
                               const CqMode& mode, uint64_t messages);

// Runs all of it: in each repeat every load, in each load every mode, beginning
// with the next one each time. `progress(text)` is told of each.
absl::StatusOr<std::vector<CqCell>> RunCells(
    ControlConnection* control, CqClient* client, const CqPlan& plan,
    const std::function<void(const std::string&)>& progress);

}  // namespace sluice::bench
