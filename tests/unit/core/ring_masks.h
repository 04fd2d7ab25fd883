// Every ring feature masked off in turn, for the suites that run on each.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "core/ring.h"

namespace sluice {

struct RingMask {
  const char* name;
  uint32_t features;
};

inline constexpr RingMask kRingMasks[] = {
    {"All", kAllRingFeatures},
    {"NoSingleIssuer", kAllRingFeatures & ~uint32_t{kSingleIssuer}},
    {"NoDeferTaskrun", kAllRingFeatures & ~uint32_t{kDeferTaskrun}},
    {"NoMultishotPoll", kAllRingFeatures & ~uint32_t{kMultishotPoll}},
    {"NoMsgRing", kAllRingFeatures & ~uint32_t{kMsgRing}},
    {"NoFixedFiles", kAllRingFeatures & ~uint32_t{kFixedFiles}},
    {"NoFixedBuffers", kAllRingFeatures & ~uint32_t{kFixedBuffers}},
    {"OnlyIoUring", kIoUring},
    {"NoIoUring", kAllRingFeatures & ~uint32_t{kIoUring}},
};

// The two ways to the kernel.
inline constexpr RingMask kRingDoors[] = {
    {"IoUring", kAllRingFeatures},
    {"Epoll", 0},
};

// Then a test that is about io_uring has nothing to say.
inline bool IoUringIsRefused() {
  const auto ring = Ring::Create(RingOptions());
  return ring.ok() && ((*ring)->features() & kIoUring) == 0;
}

inline void PrintTo(const RingMask& mask, std::ostream* out) {
  *out << mask.name;
}

template <typename ParamInfo>
std::string RingMaskName(const ParamInfo& info) {
  return info.param.name;
}

}  // namespace sluice
