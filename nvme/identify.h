// Identify Controller, CNS 01h and 06h: from a few facts about a controller to
// the 4096 bytes of spec §6.2. Everything not named here is what the spec's
// table recommends, zero for the most part. Builders fill the whole struct and
// allocate nothing; the caller copies it to where it goes.
//
// Namespaces and lists are in identify_namespace.h.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "nvme/libnvme_types.h"
#include "nvme/limits.h"
#include "nvme/property.h"

namespace sluice::nvme {

enum class ControllerKind : uint8_t { kIo = 1, kDiscovery = 2 };  // CNTRLTYPE

// ONCS: which optional I/O commands are served [spec §7.1].
struct OptionalCommands {
  bool compare = false;
  bool write_uncorrectable = false;
  bool dataset_management = false;
  bool write_zeroes = false;
  bool save_and_select = false;
  bool reservations = false;
  bool timestamp = false;
  bool verify = false;
  bool copy = false;

  uint16_t oncs() const;
};

struct ControllerIdentity {
  ControllerKind kind = ControllerKind::kIo;
  // ASCII, padded with spaces and cut at 20, 40 and 8 bytes. The serial is the
  // same on all controllers of a subsystem.
  absl::string_view serial;
  absl::string_view model;
  absl::string_view firmware;
  // As in Connect; cut at 223 bytes.
  absl::string_view subnqn;
  uint16_t cntlid = 0;
  uint32_t version = kVersion14;

  // MDTS: the largest transfer is 4096 << mdts bytes; 0 is no limit.
  uint8_t mdts = 8;
  // Data in a command capsule, a multiple of 16; 0: none, and SGLS says so.
  uint32_t in_capsule_bytes = 4096;
  // MSDBD, descriptors of one command. 0 would mean no limit: SPDK sends 16.
  uint8_t keyed_descriptors_max = 1;
  // MAXCMD, commands outstanding on a queue: never 0 or 1 [spec §4.2].
  uint16_t commands_max = 128;
  // NN, the highest NSID. 0 on a discovery controller.
  uint32_t nsid_max = 1024;
  // KAS, in units of 100 ms. 0 is refused by Linux.
  uint16_t keep_alive_granularity_100ms = 10;
  // CTRATT.TBKAS: any traffic counts as a Keep Alive. Only if it does.
  bool traffic_keeps_alive = false;

  uint8_t aer_count_max = 4;        // AERL, true number
  uint8_t abort_count_max = 4;      // ACL, true number
  uint16_t error_entry_count = 64;  // ELPE, true number of 1..256
  bool namespace_events = true;     // OAES bit 8; discovery has bit 31 instead
  bool effects_log = true;          // LPA bit 1; not on a discovery controller

  OptionalCommands optional_commands;
  bool compare_and_write = false;     // FUSES bit 0
  bool volatile_write_cache = false;  // VWC bit 0; say the truth
  bool flush_all_namespaces = true;   // VWC 2:1: Flush takes NSID FFFFFFFFh
  bool disconnect_command = false;    // OFCS bit 0
  // AWUN and AWUPF: blocks written atomically, true numbers of 1..65536.
  uint32_t atomic_blocks = 1;
  uint32_t atomic_blocks_power_fail = 1;
};

void BuildIdentifyController(const ControllerIdentity& identity,
                             nvme_id_ctrl* out);

// Limits of commands that move no data, CNS 06h, CSI 0 [spec §6.5]. All zeroes
// is right for most. The three DMR fields are all zero or all not.
struct NvmControllerLimits {
  uint8_t verify_size = 0;            // VSL: 4096 << n bytes; 0 is no limit
  uint8_t write_zeroes_size = 0;      // WZSL: the same
  uint8_t dsm_range_count_max = 0;    // DMRL
  uint32_t dsm_range_blocks_max = 0;  // DMRSL
  uint64_t dsm_blocks_max = 0;        // DMSL
};

void BuildNvmController(const NvmControllerLimits& limits,
                        nvme_id_ctrl_nvm* out);

// IOCCSZ for so much data in the capsule: 4 without any.
constexpr uint32_t CapsuleUnits(uint32_t in_capsule_bytes) {
  return static_cast<uint32_t>((kSqeBytes + in_capsule_bytes) /
                               kCapsuleUnitBytes);
}
static_assert(CapsuleUnits(0) == 4);
static_assert(CapsuleUnits(4096) == 260);

}  // namespace sluice::nvme
