#include "nvme/log_page.h"

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "nvme/limits.h"

namespace sluice::nvme {
namespace {

constexpr uint64_t kSmartUnitBytes = 1000 * 512;
constexpr uint8_t kTrtypeRdma = 1;
constexpr uint32_t kEffectSupported = 1u << 0;
constexpr uint32_t kEffectContentChanges = 1u << 1;  // LBCC
constexpr uint32_t kPageSupported = 1u << 0;

// A 128-bit counter.
void Store128(uint64_t value, __u8 (*out)[16]) {
  std::memset(out, 0, sizeof(*out));
  std::memcpy(out, &value, sizeof(value));
}

uint64_t SmartUnits(uint64_t bytes) {
  return bytes / kSmartUnitBytes + (bytes % kSmartUnitBytes != 0 ? 1 : 0);
}

bool ChangesContent(IoOpcode opcode) {
  switch (opcode) {
    case IoOpcode::kWrite:
    case IoOpcode::kWriteUncorrectable:
    case IoOpcode::kWriteZeroes:
    case IoOpcode::kDatasetManagement:
    case IoOpcode::kCopy:
      return true;
    case IoOpcode::kFlush:
    case IoOpcode::kRead:
    case IoOpcode::kCompare:
    case IoOpcode::kVerify:
    case IoOpcode::kReservationRegister:
    case IoOpcode::kReservationReport:
    case IoOpcode::kReservationAcquire:
    case IoOpcode::kReservationRelease:
    case IoOpcode::kFabrics:
      return false;
  }
  return false;
}

}  // namespace

Status CopyLogSlice(absl::Span<const std::byte> log, uint64_t offset_bytes,
                    absl::Span<std::byte> out) {
  size_t copied = 0;
  if (offset_bytes < log.size()) {
    copied = std::min(out.size(), log.size() - offset_bytes);
    std::copy_n(log.begin() + static_cast<std::ptrdiff_t>(offset_bytes), copied,
                out.begin());
  }
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(copied), out.end(),
            std::byte{0});
  if (offset_bytes > log.size()) return kInvalidField.WithDnr();
  return kSuccess;
}

void BuildErrorEntry(const ErrorEntry& entry, nvme_error_log_page* out) {
  std::memset(out, 0, sizeof(*out));
  out->error_count = entry.count;
  out->sqid = entry.sqid;
  out->cmdid = entry.cid;
  out->status_field = entry.status.wire();
  out->parm_error_location = entry.location;
  out->lba = entry.lba;
  out->nsid = entry.nsid;
  out->trtype = kTrtypeRdma;
}

void BuildSmartLog(const SmartHealth& health, nvme_smart_log* out) {
  std::memset(out, 0, sizeof(*out));
  out->critical_warning = health.critical_warning;
  std::memcpy(out->temperature, &health.temperature_kelvin,
              sizeof(out->temperature));
  out->avail_spare = health.spare_percent;
  out->spare_thresh = health.spare_threshold_percent;
  out->percent_used = health.used_percent;
  Store128(SmartUnits(health.read_bytes), &out->data_units_read);
  Store128(SmartUnits(health.written_bytes), &out->data_units_written);
  Store128(health.read_commands, &out->host_reads);
  Store128(health.write_commands, &out->host_writes);
  Store128(health.busy_minutes, &out->ctrl_busy_time);
  Store128(health.power_cycles, &out->power_cycles);
  Store128(health.power_on_hours, &out->power_on_hours);
  Store128(health.unsafe_shutdowns, &out->unsafe_shutdowns);
  Store128(health.media_errors, &out->media_errors);
  Store128(health.error_log_entries, &out->num_err_log_entries);
}

void BuildFirmwareSlot(absl::string_view revision, nvme_firmware_slot* out) {
  std::memset(out, 0, sizeof(*out));
  out->afi = 1;
  std::memset(out->frs[0], ' ', sizeof(out->frs[0]));
  std::memcpy(out->frs[0], revision.data(),
              std::min(revision.size(), sizeof(out->frs[0])));
}

void BuildChangedNamespaces(absl::Span<const uint32_t> nsids,
                            nvme_ns_list* out) {
  SLUICE_DCHECK(std::is_sorted(nsids.begin(), nsids.end()));
  std::memset(out, 0, sizeof(*out));
  if (nsids.size() > kNamespaceListMax) {
    out->ns[0] = kNsidBroadcast;
    return;
  }
  std::copy(nsids.begin(), nsids.end(), out->ns);
}

void BuildEffectsLog(absl::Span<const AdminOpcode> admin,
                     absl::Span<const IoOpcode> io, nvme_cmd_effects_log* out) {
  std::memset(out, 0, sizeof(*out));
  for (const AdminOpcode opcode : admin) {
    out->acs[static_cast<uint8_t>(opcode)] = kEffectSupported;
  }
  for (const IoOpcode opcode : io) {
    out->iocs[static_cast<uint8_t>(opcode)] =
        kEffectSupported | (ChangesContent(opcode) ? kEffectContentChanges : 0);
  }
}

void BuildSupportedPages(absl::Span<const LogId> pages,
                         nvme_supported_log_pages* out) {
  std::memset(out, 0, sizeof(*out));
  for (const LogId page : pages) {
    out->lid_support[static_cast<uint8_t>(page)] = kPageSupported;
  }
}

}  // namespace sluice::nvme
