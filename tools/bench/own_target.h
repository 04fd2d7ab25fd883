// A sluiced that a benchmark starts for itself, on loopback over the built-in
// iWARP provider.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/child_process.h"

namespace sluice::bench {

struct OwnTargetOptions {
  std::string sluiced;  // the program
  std::string export_spec = "null:1G";
  std::string poll_mode = "hybrid";
  std::vector<std::string> flags;  // further ones
};

struct OwnTarget {
  static constexpr char kNqn[] = "nqn.2026-11.io.sluice:bench";

  std::unique_ptr<ChildProcess> process;
  uint16_t port = 0;  // on 127.0.0.1
};

// Where there is more than one processor it has the second; the first is its
// client's. kUnavailable when it does not listen within half a minute.
absl::StatusOr<OwnTarget> StartOwnTarget(const OwnTargetOptions& options);

}  // namespace sluice::bench
