// The one include of libnvme's <nvme/types.h>: the layouts of identify data,
// log pages and the discovery log. Its structs are global, C and little-endian;
// tests/unit/nvme checks the bytes at the offsets of spec §5 and §6, so that a
// newer libnvme cannot move a field unseen.
//
// Two traps of libnvme 1.3 (Debian 12) [spec §10.5]: nvme_copy_range swaps
// elbat and elbatm, and nvme_id_ns.lbstm is no field of CNS 00h.
#pragma once

// A system header: no file of ours in nvme/ may be called types.h.
#include <nvme/types.h>

#include "nvme/limits.h"

namespace sluice::nvme {

static_assert(sizeof(nvme_id_ctrl) == kIdentifyBytes);
static_assert(sizeof(nvme_id_ns) == kIdentifyBytes);
static_assert(sizeof(nvme_id_ctrl_nvm) == kIdentifyBytes);
static_assert(sizeof(nvme_nvm_id_ns) == kIdentifyBytes);
static_assert(sizeof(nvme_id_independent_id_ns) == kIdentifyBytes);
static_assert(sizeof(nvme_ns_list) == kIdentifyBytes);
static_assert(sizeof(nvme_ctrl_list) == kIdentifyBytes);
static_assert(sizeof(nvme_cmd_effects_log) == 4096);
static_assert(sizeof(nvme_supported_log_pages) == 1024);
static_assert(sizeof(nvme_error_log_page) == 64);
static_assert(sizeof(nvme_smart_log) == 512);
static_assert(sizeof(nvme_firmware_slot) == 512);
static_assert(sizeof(nvmf_discovery_log) == kDiscoveryHeaderBytes);
static_assert(sizeof(nvmf_disc_log_entry) == kDiscoveryEntryBytes);
static_assert(sizeof(nvmf_connect_data) == kConnectDataBytes);

}  // namespace sluice::nvme
