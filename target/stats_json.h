// The counters as one line of JSON, for a person and for an exporter: a metric
// is a number, or an object of numbers by label. First the process's sums, then
// an object for each reactor. Names: sluice_<folder>_<noun>_<unit>, counters
// end in _total (docs/operations.md explains them).
#pragma once

#include <string>

#include "absl/time/time.h"
#include "target/target.h"

namespace sluice::target {

// Without the line break.
std::string StatsJson(const TargetSnapshot& snapshot, absl::Time now);

}  // namespace sluice::target
