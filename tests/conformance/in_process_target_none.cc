// Stands in while this build has no target to run in process.
#include "tests/conformance/target_under_test.h"

namespace sluice::conformance {

absl::StatusOr<std::unique_ptr<TargetUnderTest>> StartInProcessTarget() {
  return absl::UnimplementedError("this build has no target in process");
}

absl::StatusOr<std::unique_ptr<TargetUnderTest>> StartInProcessIwarpTarget() {
  return StartInProcessTarget();
}

}  // namespace sluice::conformance
