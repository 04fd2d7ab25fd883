// The cells as a table for people, as JSON, and as plots.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/bench/cq/cells.h"

namespace sluice::bench {

void PrintCells(const std::vector<CqCell>& cells);
// The goal: from 75 % on, hybrid's messages/s and p99 beside polling's; below,
// its processor time and p99 beside those of events. Ratios of runs that
// followed each other: medians and spread.
void PrintGoal(const std::vector<CqCell>& cells);

// One record per cell: provider, mode, load, medians, and each repeat's values.
nlohmann::json CellsJson(const std::string& provider,
                         const std::vector<CqCell>& cells);

// SVG files in `folder` by gnuplot, with their data beside them: p99 and
// processor share over the load, and those of the waves. Unavailable: there is
// no gnuplot; the data and the script are there then.
absl::Status PlotCells(const std::string& folder,
                       const std::vector<CqCell>& cells);

}  // namespace sluice::bench
