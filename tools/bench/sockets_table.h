// The table of `iwarp_bench --sockets`: plain sockets beside an io_uring.
#pragma once

#include <nlohmann/json.hpp>

#include "tools/bench/raw_tcp.h"

namespace sluice::bench {

// Each case on plain sockets and by each way to use a ring, in turns; prints
// the medians, adds the rows to `out`. An exit code.
int SocketsTable(const RawOptions& options, int repeats, nlohmann::json* out);

}  // namespace sluice::bench
