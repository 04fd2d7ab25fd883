#include "nvme/status.h"

namespace sluice::nvme {

const char* StatusName(Status status) {
  switch (status.code()) {
    case kSuccess.code():
      return "success";
    case kInvalidOpcode.code():
      return "invalid opcode";
    case kInvalidField.code():
      return "invalid field";
    case kCommandIdConflict.code():
      return "command id conflict";
    case kDataTransferError.code():
      return "data transfer error";
    case kAbortedPowerLoss.code():
      return "aborted, power loss";
    case kInternalError.code():
      return "internal error";
    case kAbortRequested.code():
      return "abort requested";
    case kAbortedSqDeleted.code():
      return "aborted, SQ deleted";
    case kFailedFused.code():
      return "failed fused";
    case kMissingFused.code():
      return "missing fused";
    case kInvalidNamespace.code():
      return "invalid namespace or format";
    case kCommandSequenceError.code():
      return "command sequence error";
    case kInvalidSglSegment.code():
      return "invalid SGL segment";
    case kInvalidSglCount.code():
      return "invalid number of SGL descriptors";
    case kDataSglLengthInvalid.code():
      return "data SGL length invalid";
    case kMetadataSglLengthInvalid.code():
      return "metadata SGL length invalid";
    case kSglTypeInvalid.code():
      return "SGL type invalid";
    case kAtomicWriteUnitExceeded.code():
      return "atomic write unit exceeded";
    case kOperationDenied.code():
      return "operation denied";
    case kSglOffsetInvalid.code():
      return "SGL offset invalid";
    case kHostIdInconsistent.code():
      return "host id inconsistent format";
    case kKeepAliveExpired.code():
      return "keep alive expired";
    case kKeepAliveInvalid.code():
      return "keep alive invalid";
    case kAbortedByPreempt.code():
      return "aborted by preempt and abort";
    case kSanitizeFailed.code():
      return "sanitize failed";
    case kSanitizeInProgress.code():
      return "sanitize in progress";
    case kSglGranularityInvalid.code():
      return "SGL granularity invalid";
    case kNamespaceWriteProtected.code():
      return "namespace write protected";
    case kCommandInterrupted.code():
      return "command interrupted";
    case kTransientTransportError.code():
      return "transient transport error";
    case kProhibitedByLockdown.code():
      return "prohibited by lockdown";
    case kMediaNotReady.code():
      return "media not ready";
    case kInvalidCommandSet.code():
      return "invalid I/O command set";
    case kLbaOutOfRange.code():
      return "LBA out of range";
    case kCapacityExceeded.code():
      return "capacity exceeded";
    case kNamespaceNotReady.code():
      return "namespace not ready";
    case kReservationConflict.code():
      return "reservation conflict";
    case kFormatInProgress.code():
      return "format in progress";
    case kInvalidQueueId.code():
      return "invalid queue id";
    case kInvalidQueueSize.code():
      return "invalid queue size";
    case kAbortLimitExceeded.code():
      return "abort limit exceeded";
    case kAerLimitExceeded.code():
      return "AER limit exceeded";
    case kInvalidLogPage.code():
      return "invalid log page";
    case kInvalidFormat.code():
      return "invalid format";
    case kFeatureNotSaveable.code():
      return "feature not saveable";
    case kFeatureNotChangeable.code():
      return "feature not changeable";
    case kFeatureNotPerNamespace.code():
      return "feature not per namespace";
    case kOverlappingRange.code():
      return "overlapping range";
    case kInsufficientCapacity.code():
      return "insufficient capacity";
    case kNsidUnavailable.code():
      return "NSID unavailable";
    case kNamespaceAlreadyAttached.code():
      return "namespace already attached";
    case kNamespaceIsPrivate.code():
      return "namespace is private";
    case kNamespaceNotAttached.code():
      return "namespace not attached";
    case kControllerListInvalid.code():
      return "controller list invalid";
    case kControllerIdInvalid.code():
      return "controller id invalid";
    case kAnaGroupInvalid.code():
      return "ANA group invalid";
    case kAnaAttachFailed.code():
      return "ANA attach failed";
    case kConflictingAttributes.code():
      return "conflicting attributes, or incompatible format";
    case kInvalidProtectionInformation.code():
      return "invalid protection information, or controller busy";
    case kWriteToReadOnlyRange.code():
      return "write to read only range, or invalid parameters";
    case kSizeLimitExceeded.code():
      return "size limit exceeded, or restart discovery";
    case kConnectInvalidHost.code():
      return "invalid host";
    case kInvalidQueueType.code():
      return "invalid queue type";
    case kDiscoveryRestart.code():
      return "discovery restart";
    case kAuthenticationRequired.code():
      return "authentication required";
    case kWriteFault.code():
      return "write fault";
    case kUnrecoveredReadError.code():
      return "unrecovered read error";
    case kGuardCheckError.code():
      return "guard check error";
    case kApplicationTagCheckError.code():
      return "application tag check error";
    case kReferenceTagCheckError.code():
      return "reference tag check error";
    case kCompareFailure.code():
      return "compare failure";
    case kAccessDenied.code():
      return "access denied";
    case kDeallocatedBlock.code():
      return "deallocated block";
    case kStorageTagCheckError.code():
      return "storage tag check error";
    case kInternalPathError.code():
      return "internal path error";
    case kAnaPersistentLoss.code():
      return "ANA persistent loss";
    case kAnaInaccessible.code():
      return "ANA inaccessible";
    case kAnaTransition.code():
      return "ANA transition";
    case kControllerPathError.code():
      return "controller path error";
    case kHostPathError.code():
      return "host path error";
    case kAbortedByHost.code():
      return "aborted by host";
    default:  // a peer may send any number
      return "unknown status";
  }
}

}  // namespace sluice::nvme
