// The command line of sluiced. Flags override what --config FILE says; the
// flags are described in docs/sluiced.8.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "target/options.h"

namespace sluice::target {

struct Invocation {
  TargetOptions options;  // valid
  bool check_config = false;
  // Of --help and --version: to be printed, and nothing else done.
  std::string answer;
};

// Reads the file that --config names; may block. Errors are one line that says
// what to do: the program prints it and exits with 2.
absl::StatusOr<Invocation> ParseFlags(int argc, const char* const* argv);

}  // namespace sluice::target
