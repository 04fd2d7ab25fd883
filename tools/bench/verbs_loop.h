// The same as raw_tcp.h over verbs: our provider or an RDMA device. Two queue
// pairs of this process, each with its thread.
#pragma once

#include <cstddef>
#include <string>

#include "tools/bench/bench_run.h"
#include "transport/verbs/verbs_api.h"

namespace sluice::bench {

struct VerbsOptions {
  const VerbsApi* api = nullptr;
  std::string address = "127.0.0.1";
  double seconds = 1;
};

// RDMA WRITEs or READs of `bytes`, `depth` in flight; counts bytes. The other
// side waits, in the kernel where it can.
RunResult VerbsStream(const VerbsOptions& options, bool reads, size_t bytes,
                      uint32_t depth);
// SENDs of `bytes` back and forth; `polling`: neither side sleeps.
RunResult VerbsPingPong(const VerbsOptions& options, size_t bytes,
                        bool polling);
// SENDs of `bytes`, posted 32 at a time, hundreds in flight.
RunResult VerbsMessages(const VerbsOptions& options, size_t bytes);

}  // namespace sluice::bench
