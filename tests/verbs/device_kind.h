// Whose device is tested. Their differences are data: see differences.h.
#pragma once

#include <cstdint>

namespace sluice::verbs {

enum class DeviceKind : uint8_t {
  kIwarp,  // our provider
  kSiw,    // the kernel's software iWARP
  kRxe,    // the kernel's software RoCE
  kOther,
};

}  // namespace sluice::verbs
