// Identify Namespace and its relatives, CNS 00h, 02h, 03h, 05h, 08h, 12h, 13h:
// from a few facts about a namespace to the bytes of spec §6.3-6.5. Builders
// fill the whole struct and allocate nothing. No metadata, no protection
// information: one LBA format.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "nvme/libnvme_types.h"
#include "nvme/limits.h"

namespace sluice::nvme {

// What a read of deallocated blocks returns: DLFEAT 2:0.
enum class DeallocatedRead : uint8_t { kUnknown = 0, kZeroes = 1, kOnes = 2 };

struct NamespaceIdentity {
  uint64_t block_count = 0;           // NSZE and NCAP
  uint64_t used_blocks = 0;           // NUSE; block_count unless thin
  uint32_t block_bytes = 512;         // a power of two; Linux takes 512..4096
  bool thin = false;                  // NSFEAT bit 0
  bool shared = true;                 // NMIC bit 0: needed for multipath
  bool write_protected = false;       // NSATTR bit 0
  bool rotational = false;            // CNS 08h only
  bool volatile_write_cache = false;  // CNS 08h only

  DeallocatedRead deallocated_read = DeallocatedRead::kUnknown;
  bool write_zeroes_deallocates = false;  // DLFEAT bit 3: DEAC is served

  // Identity, at least one not zero, the same on every path and after every
  // restart [spec §6.3]. In text order (big-endian). See identity.h.
  std::array<std::byte, 16> nguid{};
  std::array<std::byte, 16> uuid{};
  std::array<std::byte, 8> eui64{};
  bool ids_never_reused = true;  // NSFEAT bit 3

  // NOIOB: I/O that crosses it is slower; 0 is none. At most MDTS.
  uint16_t optimal_boundary_blocks = 0;
  // NPWG, NPWA, NPDG, NPDA, NOWS as true numbers of blocks. All 0: not
  // reported; a 0 among others is taken as 1.
  uint32_t write_granularity_blocks = 0;
  uint32_t write_alignment_blocks = 0;
  uint32_t deallocate_granularity_blocks = 0;
  uint32_t deallocate_alignment_blocks = 0;
  uint32_t optimal_write_blocks = 0;
  // NAWUN and NAWUPF, true numbers; 0: the controller's values hold.
  uint32_t atomic_blocks = 0;
  uint32_t atomic_blocks_power_fail = 0;
  uint32_t ana_group_id = 0;  // ANAGRPID
  uint8_t rescap = 0;         // RESCAP, as in the spec
};

// CNS 00h. Of an inactive NSID the answer is 4096 zeroes: no builder needed.
void BuildIdentifyNamespace(const NamespaceIdentity& identity, nvme_id_ns* out);

// CNS 03h: EUI64, NGUID and UUID as far as they are not zero, and always the
// command set.
void BuildNamespaceDescriptors(const NamespaceIdentity& identity,
                               std::array<std::byte, kIdentifyBytes>* out);

// CNS 05h, CSI 0: all zeroes without protection information.
void BuildNvmNamespace(nvme_nvm_id_ns* out);

// CNS 08h.
void BuildIndependentNamespace(const NamespaceIdentity& identity,
                               nvme_id_independent_id_ns* out);

// CNS 02h: the first 1024 NSIDs above `after`. `nsids` is ascending.
void BuildActiveNamespaces(absl::Span<const uint32_t> nsids, uint32_t after,
                           nvme_ns_list* out);

// CNS 12h and 13h: the first 2047 ids of at least `from`. `cntlids` ascends.
void BuildControllerList(absl::Span<const uint16_t> cntlids, uint16_t from,
                         nvme_ctrl_list* out);

}  // namespace sluice::nvme
