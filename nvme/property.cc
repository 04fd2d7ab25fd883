#include "nvme/property.h"

namespace sluice::nvme {
namespace {

// ATTRIB, bits 2:0 of SQE byte 40.
constexpr uint32_t kAttribMask = 0x7;
constexpr uint32_t kAttrib4Bytes = 0;
constexpr uint32_t kAttrib8Bytes = 1;
constexpr uint32_t kAttribReserved = 7;

constexpr uint8_t kCssNvm = 0;
constexpr uint8_t kCssCsi = 6;
constexpr uint8_t kCssAdminOnly = 7;

uint64_t Bits(uint64_t value, int shift, int width) {
  return (value & ((uint64_t{1} << width) - 1)) << shift;
}

uint8_t Field(uint64_t reg, int shift, int width) {
  return static_cast<uint8_t>((reg >> shift) & ((uint64_t{1} << width) - 1));
}

bool Bit(uint64_t reg, int shift) { return ((reg >> shift) & 1) != 0; }

uint32_t AttribOf(uint32_t length_bytes) {
  if (length_bytes == 4) return kAttrib4Bytes;
  if (length_bytes == 8) return kAttrib8Bytes;
  return kAttribReserved;
}

Status DecodeCommon(const Sqe& sqe, PropertyCommand* out) {
  *out = PropertyCommand();
  const uint32_t attrib = sqe.cdw10 & kAttribMask;
  if (attrib > kAttrib8Bytes) return kInvalidField.WithDnr();
  out->offset_bytes = sqe.cdw11;
  out->length_bytes = attrib == kAttrib8Bytes ? 8 : 4;
  return kSuccess;
}

void EncodeCommon(FabricsType type, const PropertyCommand& command, Sqe* sqe) {
  sqe->opcode = kFabricsOpcode;
  sqe->set_fctype(static_cast<uint8_t>(type));
  sqe->cdw10 = AttribOf(command.length_bytes);
  sqe->cdw11 = command.offset_bytes;
}

}  // namespace

uint32_t PropertyBytes(uint32_t offset_bytes) {
  switch (static_cast<Property>(offset_bytes)) {
    case Property::kCap:
      return 8;
    case Property::kVs:
    case Property::kCc:
    case Property::kCsts:
    case Property::kNssr:
    case Property::kCrto:
      return 4;
  }
  return 0;
}

uint64_t EncodeCap(const Capabilities& capabilities) {
  return Bits(uint64_t{capabilities.queue_depth_max} - 1, 0, 16) |
         Bits(capabilities.contiguous_queues, 16, 1) |
         Bits(capabilities.ams, 17, 2) |
         Bits(capabilities.timeout_500ms, 24, 8) |
         Bits(capabilities.dstrd, 32, 4) |
         Bits(capabilities.subsystem_reset, 36, 1) |
         Bits(capabilities.css_nvm, 37, 1) | Bits(capabilities.css_csi, 43, 1) |
         Bits(capabilities.css_admin_only, 44, 1) |
         Bits(capabilities.mpsmin, 48, 4) | Bits(capabilities.mpsmax, 52, 4) |
         Bits(capabilities.ready_with_media, 59, 1) |
         Bits(capabilities.ready_without_media, 60, 1);
}

Capabilities DecodeCap(uint64_t cap) {
  Capabilities capabilities;
  capabilities.queue_depth_max = static_cast<uint32_t>(cap & 0xFFFF) + 1;
  capabilities.contiguous_queues = Bit(cap, 16);
  capabilities.ams = Field(cap, 17, 2);
  capabilities.timeout_500ms = Field(cap, 24, 8);
  capabilities.dstrd = Field(cap, 32, 4);
  capabilities.subsystem_reset = Bit(cap, 36);
  capabilities.css_nvm = Bit(cap, 37);
  capabilities.css_csi = Bit(cap, 43);
  capabilities.css_admin_only = Bit(cap, 44);
  capabilities.mpsmin = Field(cap, 48, 4);
  capabilities.mpsmax = Field(cap, 52, 4);
  capabilities.ready_with_media = Bit(cap, 59);
  capabilities.ready_without_media = Bit(cap, 60);
  return capabilities;
}

uint32_t EncodeCc(const ControllerConfiguration& configuration) {
  return static_cast<uint32_t>(
      Bits(configuration.enabled, 0, 1) | Bits(configuration.css, 4, 3) |
      Bits(configuration.mps, 7, 4) | Bits(configuration.ams, 11, 3) |
      Bits(static_cast<uint8_t>(configuration.shn), 14, 2) |
      Bits(configuration.iosqes, 16, 4) | Bits(configuration.iocqes, 20, 4) |
      Bits(configuration.crime, 24, 1));
}

ControllerConfiguration DecodeCc(uint32_t cc) {
  ControllerConfiguration configuration;
  configuration.enabled = Bit(cc, 0);
  configuration.css = Field(cc, 4, 3);
  configuration.mps = Field(cc, 7, 4);
  configuration.ams = Field(cc, 11, 3);
  configuration.shn = static_cast<ShutdownNotification>(Field(cc, 14, 2));
  configuration.iosqes = Field(cc, 16, 4);
  configuration.iocqes = Field(cc, 20, 4);
  configuration.crime = Bit(cc, 24);
  return configuration;
}

bool CanEnable(const ControllerConfiguration& configuration,
               const Capabilities& capabilities, bool discovery) {
  if (!discovery) {
    if (configuration.iosqes != 6) return false;
    if (configuration.iocqes != 4) return false;
  }
  if (configuration.mps < capabilities.mpsmin) return false;
  if (configuration.mps > capabilities.mpsmax) return false;
  if (configuration.ams != 0) return false;
  switch (configuration.css) {
    case kCssNvm:
      return true;
    case kCssCsi:
      return capabilities.css_csi;
    case kCssAdminOnly:
      return capabilities.css_admin_only;
    default:
      return false;
  }
}

uint32_t EncodeCsts(const ControllerStatus& status) {
  return static_cast<uint32_t>(
      Bits(status.ready, 0, 1) | Bits(status.fatal, 1, 1) |
      Bits(static_cast<uint8_t>(status.shst), 2, 2) |
      Bits(status.reset_occurred, 4, 1) | Bits(status.processing_paused, 5, 1));
}

ControllerStatus DecodeCsts(uint32_t csts) {
  ControllerStatus status;
  status.ready = Bit(csts, 0);
  status.fatal = Bit(csts, 1);
  status.shst = static_cast<ShutdownStatus>(Field(csts, 2, 2));
  status.reset_occurred = Bit(csts, 4);
  status.processing_paused = Bit(csts, 5);
  return status;
}

uint32_t EncodeCrto(uint16_t with_media_500ms, uint16_t without_media_500ms) {
  return uint32_t{without_media_500ms} << 16 | with_media_500ms;
}

Status DecodePropertyGet(const Sqe& sqe, PropertyCommand* out) {
  return DecodeCommon(sqe, out);
}

Status DecodePropertySet(const Sqe& sqe, PropertyCommand* out) {
  const Status status = DecodeCommon(sqe, out);
  if (!status.ok()) return status;
  out->value = out->length_bytes == 8 ? sqe.cdw12_13() : uint64_t{sqe.cdw12};
  return kSuccess;
}

void EncodePropertyGet(const PropertyCommand& command, Sqe* sqe) {
  EncodeCommon(FabricsType::kPropertyGet, command, sqe);
}

void EncodePropertySet(const PropertyCommand& command, Sqe* sqe) {
  EncodeCommon(FabricsType::kPropertySet, command, sqe);
  sqe->set_cdw12_13(command.value);
}

}  // namespace sluice::nvme
