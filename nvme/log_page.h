// Log pages a controller keeps: error, SMART, firmware slots, changed
// namespaces, effects, supported pages [spec §6.6]. Builders fill the whole
// struct and allocate nothing; CopyLogSlice then serves any offset and length.
// The discovery log is in discovery_log.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "nvme/libnvme_types.h"
#include "nvme/opcodes.h"
#include "nvme/status.h"

namespace sluice::nvme {

// Fills `out` with the log from `offset_bytes` on, and with zeroes behind its
// end. An offset past the end is kInvalidField with DNR, and `out` is zeroes;
// one at the end is not. `log` and `out` do not overlap.
Status CopyLogSlice(absl::Span<const std::byte> log, uint64_t offset_bytes,
                    absl::Span<std::byte> out);

// No byte of the SQE is to blame.
inline constexpr uint16_t kErrorLocationNone = 0xFFFF;

// LID 01h. Of the host's command that failed; whoever makes an entry also sets
// MORE in the CQE. A failed Connect makes none.
struct ErrorEntry {
  uint64_t count = 0;  // rises by one per entry, never 0 in a used entry
  uint16_t sqid = 0;
  uint16_t cid = 0;
  Status status;
  uint16_t location = kErrorLocationNone;  // byte of the SQE
  uint64_t lba = 0;
  uint32_t nsid = 0;
};

void BuildErrorEntry(const ErrorEntry& entry, nvme_error_log_page* out);

// LID 02h. Counts are since the beginning of time, as far as they are kept.
struct SmartHealth {
  uint8_t critical_warning = 0;
  uint16_t temperature_kelvin = 0;  // 0 is not reported
  uint8_t spare_percent = 100;
  uint8_t spare_threshold_percent = 10;
  uint8_t used_percent = 0;
  uint64_t read_bytes = 0;  // reported in units of 512,000 bytes, rounded up
  uint64_t written_bytes = 0;
  uint64_t read_commands = 0;
  uint64_t write_commands = 0;
  uint64_t busy_minutes = 0;
  uint64_t power_cycles = 0;
  uint64_t power_on_hours = 0;
  uint64_t unsafe_shutdowns = 0;
  uint64_t media_errors = 0;
  uint64_t error_log_entries = 0;
};

void BuildSmartLog(const SmartHealth& health, nvme_smart_log* out);

// LID 03h: one slot, active, with this revision (8 characters).
void BuildFirmwareSlot(absl::string_view revision, nvme_firmware_slot* out);

// LID 04h. `nsids` is ascending; more than 1024 become FFFFFFFFh alone.
void BuildChangedNamespaces(absl::Span<const uint32_t> nsids,
                            nvme_ns_list* out);

// LID 05h: the commands served. Those that change blocks say so; none claims an
// exclusive execution (CSE), for which Linux would freeze its queues.
void BuildEffectsLog(absl::Span<const AdminOpcode> admin,
                     absl::Span<const IoOpcode> io, nvme_cmd_effects_log* out);

// LID 00h.
void BuildSupportedPages(absl::Span<const LogId> pages,
                         nvme_supported_log_pages* out);

}  // namespace sluice::nvme
