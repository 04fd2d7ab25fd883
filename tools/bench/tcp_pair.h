// TCP connections between the two sides of a run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/bench/bench_run.h"

namespace sluice::bench {

using ConnectedSide = std::function<SideResult(const std::vector<int>& fds)>;

// Runs both sides on `connections` sockets each, to and from `address` (IPv4),
// without Nagle's delay. They are closed at the end of their side.
RunResult RunConnected(const std::string& address, size_t connections,
                       const ConnectedSide& active,
                       const ConnectedSide& passive);

}  // namespace sluice::bench
