// Where a device is known to differ from what verbs and rdma_cm promise, and
// why. A test asserts the promise unless a row here names the test, the check
// (`what`; empty: every check of the test) and the device. A row's answer is
// accepted besides the right one, not instead of it: kernels differ.
//
// A test is Suite.Name, or Suite.* for all of a suite.
//
// kSpared as the answer leaves the whole test (`what` empty) or the one check
// out, because the device would not survive it or has nothing to be tested.
#pragma once

#include "tests/verbs/device_kind.h"

namespace sluice::verbs {

struct Difference {
  const char* test;
  const char* what;
  DeviceKind device;
  const char* answer;
  const char* reason;
};

inline constexpr const char* kSpared = "spared";

inline constexpr Difference kDifferences[] = {
    {"Transfer.EmptyPiecesAreNothing", "", DeviceKind::kSiw, kSpared,
     "siw_tx_hdt looks for the region of an empty first piece and "
     "dereferences what it has not looked up: the kernel oopses"},
};

}  // namespace sluice::verbs
