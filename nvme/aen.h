// Asynchronous events: DW0 of the completion of an Async Event Request, and the
// bits of feature 0Bh that switch them on [spec §6.7, §6.8].
#pragma once

#include <cstdint>

#include "nvme/opcodes.h"

namespace sluice::nvme {

enum class EventType : uint8_t {
  kError = 0,
  kSmart = 1,
  kNotice = 2,
  kIoCommandSet = 6,
  kVendor = 7,
};

struct AsyncEvent {
  EventType type = EventType::kError;
  uint8_t information = 0;
  LogId log = LogId::kError;  // whose reading with RAE 0 unmasks the event

  constexpr uint32_t dw0() const {
    return uint32_t{static_cast<uint8_t>(log)} << 16 |
           uint32_t{information} << 8 | static_cast<uint8_t>(type);
  }
  static constexpr AsyncEvent FromDw0(uint32_t dw0) {
    return {.type = static_cast<EventType>(dw0 & 0x7),
            .information = static_cast<uint8_t>(dw0 >> 8),
            .log = static_cast<LogId>(dw0 >> 16 & 0xFF)};
  }
  friend constexpr bool operator==(const AsyncEvent&,
                                   const AsyncEvent&) = default;
};

inline constexpr AsyncEvent kNamespaceChanged{EventType::kNotice, 0x00,
                                              LogId::kChangedNamespaces};
inline constexpr AsyncEvent kFirmwareActivationStarting{
    EventType::kNotice, 0x01, LogId::kFirmwareSlot};
inline constexpr AsyncEvent kAnaChanged{EventType::kNotice, 0x03, LogId::kAna};
inline constexpr AsyncEvent kDiscoveryLogChanged{EventType::kNotice, 0xF0,
                                                 LogId::kDiscovery};
inline constexpr AsyncEvent kReservationLogAvailable{EventType::kIoCommandSet,
                                                     0x00, LogId::kReservation};
inline constexpr AsyncEvent kReliabilityDegraded{EventType::kSmart, 0x00,
                                                 LogId::kSmart};
inline constexpr AsyncEvent kTemperatureThreshold{EventType::kSmart, 0x01,
                                                  LogId::kSmart};
inline constexpr AsyncEvent kSpareBelowThreshold{EventType::kSmart, 0x02,
                                                 LogId::kSmart};
inline constexpr AsyncEvent kPersistentInternalError{EventType::kError, 0x03,
                                                     LogId::kError};
inline constexpr AsyncEvent kTransientInternalError{EventType::kError, 0x04,
                                                    LogId::kError};

static_assert(kNamespaceChanged.dw0() == 0x00040002);
static_assert(kFirmwareActivationStarting.dw0() == 0x00030102);
static_assert(kAnaChanged.dw0() == 0x000C0302);
static_assert(kDiscoveryLogChanged.dw0() == 0x0070F002);
static_assert(kReservationLogAvailable.dw0() == 0x00800006);
static_assert(kReliabilityDegraded.dw0() == 0x00020001);
static_assert(kPersistentInternalError.dw0() == 0x00010300);

// Feature 0Bh; from bit 8 on the same bits as OAES of Identify Controller.
inline constexpr uint32_t kAecSmartMask = 0xFF;
inline constexpr uint32_t kAecNamespace = 1u << 8;
inline constexpr uint32_t kAecFirmware = 1u << 9;
inline constexpr uint32_t kAecAna = 1u << 11;
inline constexpr uint32_t kAecDiscovery = 1u << 31;

}  // namespace sluice::nvme
