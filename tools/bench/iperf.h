// One iperf3 stream, as another yardstick of bandwidth.
#pragma once

#include "tools/bench/bench_run.h"
#include "tools/bench/raw_tcp.h"

namespace sluice::bench {

// Server and client, each a process on a processor of its own, for at least a
// second (whole ones). Counts the bytes that arrived; not ok() where iperf3 is
// not installed (Debian: apt install iperf3).
RunResult IperfStream(const RawOptions& options);

}  // namespace sluice::bench
