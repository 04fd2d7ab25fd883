// The end under test: a reactor with a CQ engine and its queue pairs, which
// answers each capsule at once. What stands on it in sluiced, the target, is
// left out. It is told how to wait, and asked what it has cost, over TCP: a
// line of JSON each way.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "transport/verbs/verbs_api.h"

namespace sluice::bench {

struct CqServerOptions {
  // "ADDR:PORT" of the control connection; port 0: any. The queue pairs' port
  // is any and told there.
  std::string listen = "127.0.0.1:0";
  int cpu = -1;                  // of its reactor; -1: any
  uint32_t message_bytes = 128;  // at most
  uint32_t cq_depth_factor = 4;
};

// Serves one client after the other until `once` is set and one has gone. Says
// the control port when it listens.
absl::Status RunCqServer(const VerbsApi& api, const CqServerOptions& options,
                         bool once,
                         const std::function<void(uint16_t)>& listening);

}  // namespace sluice::bench
