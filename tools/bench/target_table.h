// The table of nvmf_bench --sluiced: a sluiced of our own on loopback, its load
// and a plain TCP yardstick in turns, medians.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/bench/nvmf_load.h"

namespace sluice::bench {

struct TableOptions {
  std::string sluiced;  // the program
  std::string export_spec = "null:1G";
  std::vector<std::string> sluiced_flags;  // further ones
  // Of sluiced; the client polls, but for "event", where it sleeps.
  std::vector<std::string> poll_modes = {"poll", "hybrid", "event"};
  std::vector<uint32_t> depths = {1, 32};
  int repeats = 3;
  double idle_seconds = 5;
  std::string json;  // a file for the values
};

// `load` gives the sizes and times; host, depth and waiting are the table's.
absl::Status RunTable(const TableOptions& options, const LoadOptions& load);

}  // namespace sluice::bench
