// Locked memory: how much of it the target needs, whether this process may have
// it, and what to do when not. Registered memory is pinned, and charged twice:
// to the RDMA device and to the ring.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "target/options.h"

namespace sluice::target {

// 2 x the buffer pool, and what the receives of the first queues take.
uint64_t LockedMemoryNeed(const TargetOptions& options);

// UINT64_MAX: no limit.
struct LockedMemoryLimit {
  uint64_t soft_bytes = 0;
  uint64_t hard_bytes = 0;
};

// This process's limit; none for one that holds CAP_IPC_LOCK. Raises the soft
// limit to the hard one, which needs no privilege.
LockedMemoryLimit RaiseLockedMemoryLimit();

// ResourceExhausted: names the need, the limit and how to raise it.
absl::Status CheckLockedMemory(const TargetOptions& options,
                               const LockedMemoryLimit& limit);

}  // namespace sluice::target
