// The interrupts of an RDMA device's completion vectors.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace sluice::transport {

// Lets the interrupt of that vector come to `cpu` alone. NotFound: the device
// has none that could be told apart, as those in software; others: what writing
// /proc/irq said, which only root may. `root` is for tests.
absl::Status MoveInterrupt(const std::string& device, int vector, int cpu,
                           const std::string& root = "");

}  // namespace sluice::transport
