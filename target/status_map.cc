#include "target/status_map.h"

namespace sluice::target {

nvme::Status ToStatus(blockdev::IoResult result) {
  using blockdev::IoResult;
  switch (result) {
    case IoResult::kOk:
      return nvme::kSuccess;
    case IoResult::kOutOfRange:
      return nvme::kLbaOutOfRange.WithDnr();
    case IoResult::kReadFault:
      return nvme::kUnrecoveredReadError.WithDnr();
    case IoResult::kWriteFault:
      return nvme::kWriteFault.WithDnr();
    case IoResult::kNoSpace:
      return nvme::kCapacityExceeded.WithDnr();
    case IoResult::kReadOnly:
      return nvme::kNamespaceWriteProtected.WithDnr();
    case IoResult::kUnsupported:
      return nvme::kInvalidOpcode.WithDnr();
    case IoResult::kGone:
      return nvme::kNamespaceNotReady;
    case IoResult::kAborted:
      return nvme::kAbortRequested;
    case IoResult::kRetry:
      return nvme::kInternalError;
  }
  return nvme::kInternalError;
}

}  // namespace sluice::target
