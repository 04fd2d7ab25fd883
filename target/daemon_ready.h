// What the program tells its operator on stdout: where hosts connect and how,
// and with --check-config what it would export.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "target/options.h"
#include "transport/listen_address.h"

namespace sluice::target {

// Addresses of this machine that a host could use, without zone; empty: none.
struct LocalHosts {
  std::string v4;
  std::string v6;
};

// The first of each that is up and no loopback's or link-local's; those of
// interfaces with an RDMA device first.
LocalHosts FindLocalHosts();

// Two lines for each listener and subsystem:
//   listening rdma ADDR:PORT NQN
//   nvme connect -t rdma -a ADDR -s PORT -n NQN
// The second names an address of this machine where the listener's is a
// wildcard, "ADDR" when there is none.
std::string ReadyLines(absl::Span<const transport::ListenAddress> addresses,
                       absl::Span<const std::string> nqns,
                       const LocalHosts& local);

// Lines that say what the options export. `default_nqn`: for a subsystem that
// has no name.
std::string DescribeExports(const TargetOptions& options,
                            absl::string_view default_nqn);

}  // namespace sluice::target
