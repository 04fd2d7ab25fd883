// The controller's properties, which fabrics reads and writes by command:
// CAP, VS, CC, CSTS, CRTO, and Property Get and Set themselves [spec §3.3].
// Structs of named fields in, register values out, and back again for the
// initiator.
#pragma once

#include <cstdint>

#include "nvme/sqe.h"
#include "nvme/status.h"

namespace sluice::nvme {

enum class Property : uint32_t {
  kCap = 0x00,
  kVs = 0x08,
  kCc = 0x14,
  kCsts = 0x1C,
  kNssr = 0x20,
  kCrto = 0x68,
};

// 8 for CAP, 4 for the others; 0 if there is no property at this offset.
uint32_t PropertyBytes(uint32_t offset_bytes);

// VS: major, minor, tertiary. Linux asks for descriptor lists from 1.3 on.
constexpr uint32_t MakeVersion(uint16_t major, uint8_t minor,
                               uint8_t tertiary) {
  return uint32_t{major} << 16 | uint32_t{minor} << 8 | tertiary;
}
inline constexpr uint32_t kVersion14 = MakeVersion(1, 4, 0);

// Written to NSSR to reset the subsystem: "NVMe".
inline constexpr uint32_t kNssrReset = 0x4E564D65;

// CAP. The defaults are the spec's recommended values.
struct Capabilities {
  uint32_t queue_depth_max = 128;  // MQES, as a true number of 1..65536
  bool contiguous_queues = true;   // CQR
  uint8_t ams = 0;                 // 2 bits
  uint8_t timeout_500ms = 30;      // TO: ready within TO/2 seconds
  uint8_t dstrd = 0;               // 4 bits
  bool subsystem_reset = false;    // NSSRS
  bool css_nvm = true;             // the NVM command set
  bool css_csi = false;            // I/O command sets by CSI: hosts set CSS=6
  bool css_admin_only = false;
  uint8_t mpsmin = 0;  // 4 bits; Linux refuses pages above its own 4 KiB
  uint8_t mpsmax = 0;  // 4 bits
  bool ready_with_media = false;     // CRWMS; then CRTO is read
  bool ready_without_media = false;  // CRIMS
};

uint64_t EncodeCap(const Capabilities& capabilities);
Capabilities DecodeCap(uint64_t cap);

// CC.SHN.
enum class ShutdownNotification : uint8_t {
  kNone = 0,
  kNormal = 1,
  kAbrupt = 2,
  kReserved = 3,
};

struct ControllerConfiguration {
  bool enabled = false;  // EN
  uint8_t css = 0;       // 3 bits
  uint8_t mps = 0;       // 4 bits
  uint8_t ams = 0;       // 3 bits
  ShutdownNotification shn = ShutdownNotification::kNone;
  uint8_t iosqes = 6;  // 4 bits; log2 of the entry size
  uint8_t iocqes = 4;  // 4 bits
  bool crime = false;
};

uint32_t EncodeCc(const ControllerConfiguration& configuration);
ControllerConfiguration DecodeCc(uint32_t cc);

// Whether EN may go from 0 to 1; if not, the controller sets CFS and stays not
// ready, as nvmet. A discovery controller looks at no entry sizes.
bool CanEnable(const ControllerConfiguration& configuration,
               const Capabilities& capabilities, bool discovery);

// CSTS.SHST.
enum class ShutdownStatus : uint8_t {
  kNormal = 0,
  kInProgress = 1,
  kComplete = 2,
  kReserved = 3,
};

struct ControllerStatus {
  bool ready = false;  // RDY
  bool fatal = false;  // CFS
  ShutdownStatus shst = ShutdownStatus::kNormal;
  bool reset_occurred = false;     // NSSRO
  bool processing_paused = false;  // PP
};

uint32_t EncodeCsts(const ControllerStatus& status);
ControllerStatus DecodeCsts(uint32_t csts);

// CRTO, in units of 500 ms; both at least CAP.TO.
uint32_t EncodeCrto(uint16_t with_media_500ms, uint16_t without_media_500ms);

// Property Get (value unused) and Property Set.
struct PropertyCommand {
  uint32_t offset_bytes = 0;
  uint32_t length_bytes = 4;  // 4 or 8
  uint64_t value = 0;         // 4-byte properties: the low half counts
};

// kInvalidField with DNR if ATTRIB is neither 4 nor 8 bytes. Whether there is
// such a property is the caller's question: see PropertyBytes().
Status DecodePropertyGet(const Sqe& sqe, PropertyCommand* out);
Status DecodePropertySet(const Sqe& sqe, PropertyCommand* out);

// Sets opcode, FCTYPE, ATTRIB, OFST and VALUE. A length that is neither 4 nor 8
// becomes a reserved ATTRIB: a test's way to break the rule.
void EncodePropertyGet(const PropertyCommand& command, Sqe* sqe);
void EncodePropertySet(const PropertyCommand& command, Sqe* sqe);

}  // namespace sluice::nvme
