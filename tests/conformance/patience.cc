#include "tests/conformance/patience.h"

#include <algorithm>

namespace sluice::conformance {
namespace {

double slowness = 1;

constexpr int kSpinCount = 20;
constexpr absl::Duration kNapMin = absl::Microseconds(20);
constexpr absl::Duration kNapMax = absl::Milliseconds(1);

}  // namespace

void SetSlowness(double factor) { slowness = std::max(factor, 1.0); }

absl::Duration Scaled(absl::Duration wait) { return wait * slowness; }

bool Deadline::Nap() {
  if (passed()) return false;
  ++nap_count_;
  if (nap_count_ > kSpinCount) {
    absl::SleepFor(std::min(kNapMax, kNapMin * (nap_count_ - kSpinCount)));
  }
  return true;
}

}  // namespace sluice::conformance
