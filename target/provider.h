// Which verbs a program uses: the system's libraries, where RDMA devices carry
// its addresses, or the iWARP provider in this process.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "target/options.h"
#include "transport/verbs/verbs_api.h"

namespace sluice::target {

struct PickedProvider {
  const VerbsApi* api = nullptr;
  std::string why;           // for the log
  bool pins_memory = false;  // what is registered counts as locked
};

// Asks `system` (VerbsApi::System()) where the operator left it open. Sets the
// iWARP provider's options when it is picked: before its first use.
// InvalidArgument: an address is none, or only some are RDMA devices'.
absl::StatusOr<PickedProvider> PickProvider(
    const TargetOptions& options, const VerbsApi& system = VerbsApi::System());

}  // namespace sluice::target
