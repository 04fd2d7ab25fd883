// What the discovery service tells a host: where it can connect to what
// [spec §5.2]. Built anew for each reading from what does not change while the
// target runs, so that every part of a log that is read in parts belongs to
// the same snapshot.
//
// Functions only; on any reactor.
#pragma once

#include <cstddef>
#include <vector>

#include "nvme/discovery_log.h"
#include "target/controller.h"
#include "target/target_shard.h"

namespace sluice::target {

// The service itself first, where the host has reached it; then for each
// listener each subsystem that the host may use. A listener on every address
// is told as the one that the host has connected to, and left out where that
// is of another family.
std::vector<nvme::DiscoveryEntry> DiscoveryEntries(const TargetShared& shared,
                                                   const ControllerInfo& info);

// The log page of these.
std::vector<std::byte> DiscoveryLog(const TargetShared& shared,
                                    const ControllerInfo& info);

}  // namespace sluice::target
