// The status of a command: the 16 bits at the end of a CQE [spec §2.3]. A value
// of two bytes, passed in a register, made and read on any reactor.
//
// Codes are written 0xTSS as in the specification: T the status code type, SS
// the status code. The constants below carry no DNR; whoever answers adds it
// where the same command would fail again [spec §7.9]:
//
//   return kInvalidField.WithDnr();
#pragma once

#include <cstdint>

namespace sluice::nvme {

class [[nodiscard]] Status {
 public:
  // Success.
  constexpr Status() = default;

  // `code` is 0xTSS, at most 0x7FF.
  explicit constexpr Status(uint16_t code)
      : wire_(static_cast<uint16_t>((code & kCodeMask) << 1)) {}

  // Bytes 14..15 of a CQE. The phase bit is dropped: it means nothing here.
  static constexpr Status FromWire(uint16_t wire) {
    Status status;
    status.wire_ = static_cast<uint16_t>(wire & ~kPhase);
    return status;
  }

  constexpr bool ok() const { return code() == 0; }
  constexpr uint16_t code() const {
    return static_cast<uint16_t>((wire_ >> 1) & kCodeMask);
  }
  constexpr bool dnr() const { return (wire_ & kDnr) != 0; }
  constexpr bool more() const { return (wire_ & kMore) != 0; }
  // 0, or which of CRDT1..3 the host waits before it retries.
  constexpr uint8_t crd() const {
    return static_cast<uint8_t>((wire_ & kCrd) >> kCrdShift);
  }
  // As it goes into the CQE; the phase bit is always 0 in fabrics.
  constexpr uint16_t wire() const { return wire_; }

  // The same code, whatever DNR, MORE and CRD say.
  constexpr bool Is(Status other) const { return code() == other.code(); }

  // Copies with DNR (do not retry), without it, with MORE (the error log has
  // an entry), with a retry delay index of 0..3.
  constexpr Status WithDnr() const { return With(kDnr, kDnr); }
  constexpr Status WithoutDnr() const { return With(kDnr, 0); }
  constexpr Status WithMore() const { return With(kMore, kMore); }
  constexpr Status WithCrd(uint8_t crd) const {
    return With(kCrd, static_cast<uint16_t>(crd << kCrdShift));
  }

  // Every bit equal, DNR too. See Is().
  friend constexpr bool operator==(Status, Status) = default;

 private:
  static constexpr uint16_t kPhase = 0x0001;
  static constexpr uint16_t kCodeMask = 0x07FF;
  static constexpr uint16_t kCrd = 0x3000;
  static constexpr int kCrdShift = 12;
  static constexpr uint16_t kMore = 0x4000;
  static constexpr uint16_t kDnr = 0x8000;

  constexpr Status With(uint16_t mask, uint16_t bits) const {
    return FromWire(static_cast<uint16_t>((wire_ & ~mask) | (bits & mask)));
  }

  uint16_t wire_ = 0;
};

static_assert(sizeof(Status) == 2);

// The specification's words for a status: "invalid field". Never null; the
// text is static. 0x180..0x183 have two meanings, both are named.
const char* StatusName(Status status);

// Generic [spec §7.9].
inline constexpr Status kSuccess{0x000};
inline constexpr Status kInvalidOpcode{0x001};
inline constexpr Status kInvalidField{0x002};
inline constexpr Status kCommandIdConflict{0x003};
inline constexpr Status kDataTransferError{0x004};
inline constexpr Status kAbortedPowerLoss{0x005};
inline constexpr Status kInternalError{0x006};
inline constexpr Status kAbortRequested{0x007};
inline constexpr Status kAbortedSqDeleted{0x008};
inline constexpr Status kFailedFused{0x009};
inline constexpr Status kMissingFused{0x00A};
inline constexpr Status kInvalidNamespace{0x00B};
inline constexpr Status kCommandSequenceError{0x00C};
inline constexpr Status kInvalidSglSegment{0x00D};
inline constexpr Status kInvalidSglCount{0x00E};
inline constexpr Status kDataSglLengthInvalid{0x00F};
inline constexpr Status kMetadataSglLengthInvalid{0x010};
inline constexpr Status kSglTypeInvalid{0x011};
inline constexpr Status kAtomicWriteUnitExceeded{0x014};
inline constexpr Status kOperationDenied{0x015};
inline constexpr Status kSglOffsetInvalid{0x016};
inline constexpr Status kHostIdInconsistent{0x018};
inline constexpr Status kKeepAliveExpired{0x019};
inline constexpr Status kKeepAliveInvalid{0x01A};
inline constexpr Status kAbortedByPreempt{0x01B};
inline constexpr Status kSanitizeFailed{0x01C};
inline constexpr Status kSanitizeInProgress{0x01D};
inline constexpr Status kSglGranularityInvalid{0x01E};
inline constexpr Status kNamespaceWriteProtected{0x020};
inline constexpr Status kCommandInterrupted{0x021};
inline constexpr Status kTransientTransportError{0x022};
inline constexpr Status kProhibitedByLockdown{0x023};
inline constexpr Status kMediaNotReady{0x024};
inline constexpr Status kInvalidCommandSet{0x02C};
inline constexpr Status kLbaOutOfRange{0x080};
inline constexpr Status kCapacityExceeded{0x081};
inline constexpr Status kNamespaceNotReady{0x082};
inline constexpr Status kReservationConflict{0x083};
inline constexpr Status kFormatInProgress{0x084};

// Command specific [spec §7.9].
inline constexpr Status kInvalidQueueId{0x101};
inline constexpr Status kInvalidQueueSize{0x102};
inline constexpr Status kAbortLimitExceeded{0x103};
inline constexpr Status kAerLimitExceeded{0x105};
inline constexpr Status kInvalidLogPage{0x109};
inline constexpr Status kInvalidFormat{0x10A};
inline constexpr Status kFeatureNotSaveable{0x10D};
inline constexpr Status kFeatureNotChangeable{0x10E};
inline constexpr Status kFeatureNotPerNamespace{0x10F};
inline constexpr Status kOverlappingRange{0x114};
inline constexpr Status kInsufficientCapacity{0x115};
inline constexpr Status kNsidUnavailable{0x116};
inline constexpr Status kNamespaceAlreadyAttached{0x118};
inline constexpr Status kNamespaceIsPrivate{0x119};
inline constexpr Status kNamespaceNotAttached{0x11A};
inline constexpr Status kControllerListInvalid{0x11C};
inline constexpr Status kControllerIdInvalid{0x11F};
inline constexpr Status kAnaGroupInvalid{0x124};
inline constexpr Status kAnaAttachFailed{0x125};

// Command specific, I/O commands [spec §7.9].
inline constexpr Status kConflictingAttributes{0x180};
inline constexpr Status kInvalidProtectionInformation{0x181};
inline constexpr Status kWriteToReadOnlyRange{0x182};
inline constexpr Status kSizeLimitExceeded{0x183};

// Command specific, fabrics commands: the same numbers again [spec §3.7].
inline constexpr Status kConnectIncompatibleFormat{0x180};
inline constexpr Status kConnectControllerBusy{0x181};
inline constexpr Status kConnectInvalidParameters{0x182};
inline constexpr Status kConnectRestartDiscovery{0x183};
inline constexpr Status kConnectInvalidHost{0x184};
inline constexpr Status kInvalidQueueType{0x185};
inline constexpr Status kDiscoveryRestart{0x190};
inline constexpr Status kAuthenticationRequired{0x191};

// Media [spec §7.9].
inline constexpr Status kWriteFault{0x280};
inline constexpr Status kUnrecoveredReadError{0x281};
inline constexpr Status kGuardCheckError{0x282};
inline constexpr Status kApplicationTagCheckError{0x283};
inline constexpr Status kReferenceTagCheckError{0x284};
inline constexpr Status kCompareFailure{0x285};
inline constexpr Status kAccessDenied{0x286};
inline constexpr Status kDeallocatedBlock{0x287};
inline constexpr Status kStorageTagCheckError{0x288};

// Path. Never with DNR on the ANA codes: Linux would not fail over [spec §8].
inline constexpr Status kInternalPathError{0x300};
inline constexpr Status kAnaPersistentLoss{0x301};
inline constexpr Status kAnaInaccessible{0x302};
inline constexpr Status kAnaTransition{0x303};
inline constexpr Status kControllerPathError{0x360};
inline constexpr Status kHostPathError{0x370};
inline constexpr Status kAbortedByHost{0x371};

}  // namespace sluice::nvme
