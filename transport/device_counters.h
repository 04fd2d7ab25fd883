// What the kernel counts for an RDMA device: sysfs's counters and hw_counters
// of its ports.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace sluice::transport {

// Adds them as "DEVICE/NAME", summed over the ports. A device that has none, as
// our own provider's, adds nothing. Blocks as files do; `root` is for tests.
void ReadDeviceCounters(const std::string& device,
                        std::map<std::string, uint64_t>* out,
                        const std::string& root = "/sys/class/infiniband");

}  // namespace sluice::transport
