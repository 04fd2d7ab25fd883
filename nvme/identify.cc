#include "nvme/identify.h"

#include <algorithm>
#include <cstring>

#include "core/check.h"

namespace sluice::nvme {
namespace {

constexpr uint8_t kRab = 6;
constexpr uint8_t kCmicSeveralPortsAndControllers = 0x03;
constexpr uint32_t kOaesNamespace = 1u << 8;
constexpr uint32_t kOaesDiscovery = 1u << 31;
constexpr uint32_t kCtrattHostId128 = 1u << 0;
constexpr uint32_t kCtrattTbkas = 1u << 6;
constexpr uint8_t kFrmwOneReadOnlySlot = 0x03;
constexpr uint8_t kLpaEffects = 1 << 1;
constexpr uint8_t kLpaExtended = 1 << 2;  // LPO and NUMDU
constexpr uint32_t kSglsDword = 0x1;      // bits 1:0
constexpr uint32_t kSglsKeyed = 1u << 2;
constexpr uint32_t kSglsOffset = 1u << 20;
constexpr uint8_t kVwcPresent = 1 << 0;
constexpr uint8_t kVwcFlushOne = 0x2 << 1;
constexpr uint8_t kVwcFlushAll = 0x3 << 1;

void FillText(absl::string_view text, char* out, size_t bytes) {
  std::memset(out, ' ', bytes);
  std::memcpy(out, text.data(), std::min(text.size(), bytes));
}

void FillNames(const ControllerIdentity& identity, nvme_id_ctrl* out) {
  FillText(identity.serial, out->sn, sizeof(out->sn));
  FillText(identity.model, out->mn, sizeof(out->mn));
  FillText(identity.firmware, out->fr, sizeof(out->fr));
  std::memcpy(out->subnqn, identity.subnqn.data(),
              std::min(identity.subnqn.size(), kNqnLengthMax));
}

// What only a controller with namespaces has.
void FillIo(const ControllerIdentity& identity, nvme_id_ctrl* out) {
  if (identity.namespace_events) out->oaes = kOaesNamespace;
  if (identity.effects_log) out->lpa |= kLpaEffects;
  out->nn = identity.nsid_max;
  out->oncs = identity.optional_commands.oncs();
  out->fuses = identity.compare_and_write ? 1 : 0;
  out->vwc = static_cast<uint8_t>(
      (identity.volatile_write_cache ? kVwcPresent : 0) |
      (identity.flush_all_namespaces ? kVwcFlushAll : kVwcFlushOne));
  out->awun = static_cast<uint16_t>(identity.atomic_blocks - 1);
  out->awupf = static_cast<uint16_t>(identity.atomic_blocks_power_fail - 1);
}

void FillFabrics(const ControllerIdentity& identity, nvme_id_ctrl* out) {
  out->sgls = kSglsDword | kSglsKeyed |
              (identity.in_capsule_bytes > 0 ? kSglsOffset : 0);
  out->ioccsz = CapsuleUnits(identity.in_capsule_bytes);
  out->iorcsz = 1;
  out->icdoff = 0;  // Linux refuses any other [spec §2.1]
  out->msdbd = identity.keyed_descriptors_max;
  out->ofcs = identity.disconnect_command ? 1 : 0;
}

}  // namespace

uint16_t OptionalCommands::oncs() const {
  return static_cast<uint16_t>(
      int{compare} << 0 | int{write_uncorrectable} << 1 |
      int{dataset_management} << 2 | int{write_zeroes} << 3 |
      int{save_and_select} << 4 | int{reservations} << 5 | int{timestamp} << 6 |
      int{verify} << 7 | int{copy} << 8);
}

void BuildIdentifyController(const ControllerIdentity& identity,
                             nvme_id_ctrl* out) {
  SLUICE_CHECK(identity.in_capsule_bytes % kCapsuleUnitBytes == 0);
  SLUICE_DCHECK(identity.commands_max >= 2);
  std::memset(out, 0, sizeof(*out));
  FillNames(identity, out);
  out->rab = kRab;
  out->cmic = kCmicSeveralPortsAndControllers;
  out->mdts = identity.mdts;
  out->cntlid = identity.cntlid;
  out->ver = identity.version;
  out->ctratt =
      kCtrattHostId128 | (identity.traffic_keeps_alive ? kCtrattTbkas : 0);
  out->cntrltype = static_cast<uint8_t>(identity.kind);
  out->acl = static_cast<uint8_t>(identity.abort_count_max - 1);
  out->aerl = static_cast<uint8_t>(identity.aer_count_max - 1);
  out->frmw = kFrmwOneReadOnlySlot;
  out->lpa = kLpaExtended;
  out->elpe = static_cast<uint8_t>(identity.error_entry_count - 1);
  out->kas = identity.keep_alive_granularity_100ms;
  out->sqes = 0x66;
  out->cqes = 0x44;
  out->maxcmd = identity.commands_max;
  // nvmet's one power state.
  out->psd[0].mp = 0x9C4;
  out->psd[0].enlat = 0x10;
  out->psd[0].exlat = 4;
  FillFabrics(identity, out);
  switch (identity.kind) {
    case ControllerKind::kIo:
      FillIo(identity, out);
      break;
    case ControllerKind::kDiscovery:
      out->oaes = kOaesDiscovery;
      out->dctype = 1;  // a discovery controller that is not central
      break;
  }
}

void BuildNvmController(const NvmControllerLimits& limits,
                        nvme_id_ctrl_nvm* out) {
  const bool some = limits.dsm_range_count_max != 0 ||
                    limits.dsm_range_blocks_max != 0 ||
                    limits.dsm_blocks_max != 0;
  const bool all = limits.dsm_range_count_max != 0 &&
                   limits.dsm_range_blocks_max != 0 &&
                   limits.dsm_blocks_max != 0;
  SLUICE_DCHECK(some == all);
  std::memset(out, 0, sizeof(*out));
  out->vsl = limits.verify_size;
  out->wzsl = limits.write_zeroes_size;
  out->dmrl = limits.dsm_range_count_max;
  out->dmrsl = limits.dsm_range_blocks_max;
  out->dmsl = limits.dsm_blocks_max;
}

}  // namespace sluice::nvme
