// The numbers that name things: opcodes, fabrics types, features, log pages,
// identify structures [spec §3.1, §6, §7.1]. Sqe keeps them as bytes, since a
// peer may send any; switch over `static_cast<AdminOpcode>(sqe.opcode)` with a
// default that answers kInvalidOpcode.
#pragma once

#include <cstdint>

namespace sluice::nvme {

// Opcode of every fabrics command, on admin and I/O queues [spec §3].
inline constexpr uint8_t kFabricsOpcode = 0x7F;

// [spec §6.1]
enum class AdminOpcode : uint8_t {
  kDeleteIoSq = 0x00,
  kCreateIoSq = 0x01,
  kGetLogPage = 0x02,
  kDeleteIoCq = 0x04,
  kCreateIoCq = 0x05,
  kIdentify = 0x06,
  kAbort = 0x08,
  kSetFeatures = 0x09,
  kGetFeatures = 0x0A,
  kAsyncEventRequest = 0x0C,
  kNamespaceManagement = 0x0D,
  kFirmwareCommit = 0x10,
  kFirmwareDownload = 0x11,
  kDeviceSelfTest = 0x14,
  kNamespaceAttachment = 0x15,
  kKeepAlive = 0x18,
  kDirectiveSend = 0x19,
  kDirectiveReceive = 0x1A,
  kFabrics = kFabricsOpcode,
  kFormatNvm = 0x80,
  kSecuritySend = 0x81,
  kSecurityReceive = 0x82,
  kSanitize = 0x84,
  kGetLbaStatus = 0x86,
};

// NVM command set [spec §7.1].
enum class IoOpcode : uint8_t {
  kFlush = 0x00,
  kWrite = 0x01,
  kRead = 0x02,
  kWriteUncorrectable = 0x04,
  kCompare = 0x05,
  kWriteZeroes = 0x08,
  kDatasetManagement = 0x09,
  kVerify = 0x0C,
  kReservationRegister = 0x0D,
  kReservationReport = 0x0E,
  kReservationAcquire = 0x11,
  kReservationRelease = 0x15,
  kCopy = 0x19,
  kFabrics = kFabricsOpcode,
};

// FCTYPE, byte 4 of a fabrics command [spec §3.1].
enum class FabricsType : uint8_t {
  kPropertySet = 0x00,
  kConnect = 0x01,
  kPropertyGet = 0x04,
  kAuthenticationSend = 0x05,
  kAuthenticationReceive = 0x06,
  kDisconnect = 0x08,
};

// FID [spec §6.7].
enum class FeatureId : uint8_t {
  kArbitration = 0x01,
  kPowerManagement = 0x02,
  kTemperatureThreshold = 0x04,
  kErrorRecovery = 0x05,
  kVolatileWriteCache = 0x06,
  kNumberOfQueues = 0x07,
  kInterruptCoalescing = 0x08,
  kInterruptVector = 0x09,
  kWriteAtomicity = 0x0A,
  kAsyncEventConfiguration = 0x0B,
  kAutonomousPowerState = 0x0C,
  kTimestamp = 0x0E,
  kKeepAliveTimer = 0x0F,
  kHostControlledThermal = 0x10,
  kHostBehaviour = 0x16,
  kCommandSetProfile = 0x19,
  kSoftwareProgress = 0x80,
  kHostIdentifier = 0x81,
  kReservationNotificationMask = 0x82,
  kReservationPersistence = 0x83,
  kNamespaceWriteProtection = 0x84,
};

// SEL of Get Features [spec §6.7].
enum class FeatureSelect : uint8_t {
  kCurrent = 0,
  kDefault = 1,
  kSaved = 2,
  kCapabilities = 3,
};

// LID [spec §6.6].
enum class LogId : uint8_t {
  kSupportedPages = 0x00,
  kError = 0x01,
  kSmart = 0x02,
  kFirmwareSlot = 0x03,
  kChangedNamespaces = 0x04,
  kEffects = 0x05,
  kAna = 0x0C,
  kFeatureEffects = 0x12,
  kDiscovery = 0x70,
  kReservation = 0x80,
  kSanitize = 0x81,
};

// CNS of Identify [spec §6.2].
enum class Cns : uint8_t {
  kNamespace = 0x00,
  kController = 0x01,
  kActiveNamespaces = 0x02,
  kNamespaceDescriptors = 0x03,
  kCommandSetNamespace = 0x05,
  kCommandSetController = 0x06,
  kCommandSetActiveNamespaces = 0x07,
  kIndependentNamespace = 0x08,
  kAllocatedNamespaces = 0x10,
  kAllocatedNamespace = 0x11,
  kNamespaceControllers = 0x12,
  kControllers = 0x13,
  kPrimaryController = 0x14,
  kSecondaryControllers = 0x15,
  kUuidList = 0x17,
  kCommandSets = 0x1C,
};

// CSI: only the NVM command set is served here.
inline constexpr uint8_t kCsiNvm = 0;

// Which way data moves; the low bits of an opcode, or of FCTYPE for a fabrics
// command [spec §2.5].
enum class Direction : uint8_t {
  kNone = 0,
  kHostToController = 1,
  kControllerToHost = 2,
  kBidirectional = 3,
};

constexpr Direction DirectionOf(uint8_t opcode_or_fctype) {
  return static_cast<Direction>(opcode_or_fctype & 0x3);
}

}  // namespace sluice::nvme
