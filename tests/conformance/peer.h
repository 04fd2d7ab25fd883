// Whose target is tested. Their differences are data: see differences.h.
#pragma once

#include <cstdint>

namespace sluice::conformance {

enum class Peer : uint8_t { kSluice, kNvmet };

}  // namespace sluice::conformance
