#include "nvme/identify_namespace.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/check.h"
#include "nvme/opcodes.h"

namespace sluice::nvme {
namespace {

constexpr uint8_t kNsfeatThin = 1 << 0;
constexpr uint8_t kNsfeatAtomics = 1 << 1;
constexpr uint8_t kNsfeatIdsNeverReused = 1 << 3;
constexpr uint8_t kNsfeatOptimal = 1 << 4;
constexpr uint8_t kIndependentIdsNeverReused = 1 << 3;
constexpr uint8_t kIndependentRotational = 1 << 4;
constexpr uint8_t kIndependentNoCache = 1 << 5;
constexpr uint8_t kNmicShared = 1 << 0;
constexpr uint8_t kNsattrWriteProtected = 1 << 0;
constexpr uint8_t kDlfeatDeac = 1 << 3;
constexpr uint8_t kNstatReady = 1 << 0;

// NIDT [spec §6.4].
constexpr uint8_t kNidtEui64 = 1;
constexpr uint8_t kNidtNguid = 2;
constexpr uint8_t kNidtUuid = 3;
constexpr uint8_t kNidtCsi = 4;
constexpr size_t kDescriptorHeaderBytes = 4;

uint8_t Flag(bool on, uint8_t bit) { return on ? bit : uint8_t{0}; }

bool IsZero(absl::Span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](std::byte b) { return b == std::byte{0}; });
}

// A true number to a 0's based field of 16 bits; 0 is taken as 1, and what the
// field cannot hold as the most it can.
uint16_t ZeroBased(uint32_t count) {
  return static_cast<uint16_t>(std::clamp(count, 1u, 65536u) - 1);
}

void FillOptimal(const NamespaceIdentity& identity, nvme_id_ns* out) {
  if (identity.write_granularity_blocks == 0 &&
      identity.write_alignment_blocks == 0 &&
      identity.deallocate_granularity_blocks == 0 &&
      identity.deallocate_alignment_blocks == 0 &&
      identity.optimal_write_blocks == 0) {
    return;
  }
  out->nsfeat |= kNsfeatOptimal;
  out->npwg = ZeroBased(identity.write_granularity_blocks);
  out->npwa = ZeroBased(identity.write_alignment_blocks);
  out->npdg = ZeroBased(identity.deallocate_granularity_blocks);
  out->npda = ZeroBased(identity.deallocate_alignment_blocks);
  out->nows = ZeroBased(identity.optimal_write_blocks);
}

void FillAtomics(const NamespaceIdentity& identity, nvme_id_ns* out) {
  if (identity.atomic_blocks == 0 && identity.atomic_blocks_power_fail == 0) {
    return;
  }
  out->nsfeat |= kNsfeatAtomics;
  out->nawun = ZeroBased(identity.atomic_blocks);
  out->nawupf = ZeroBased(identity.atomic_blocks_power_fail);
}

// Appends one descriptor at *offset.
void Append(uint8_t nidt, absl::Span<const std::byte> nid, size_t* offset,
            std::array<std::byte, kIdentifyBytes>* out) {
  SLUICE_CHECK(*offset + kDescriptorHeaderBytes + nid.size() <= out->size());
  (*out)[*offset] = std::byte{nidt};
  (*out)[*offset + 1] = static_cast<std::byte>(nid.size());
  std::memcpy(out->data() + *offset + kDescriptorHeaderBytes, nid.data(),
              nid.size());
  *offset += kDescriptorHeaderBytes + nid.size();
}

}  // namespace

void BuildIdentifyNamespace(const NamespaceIdentity& identity,
                            nvme_id_ns* out) {
  SLUICE_CHECK(std::has_single_bit(identity.block_bytes));
  std::memset(out, 0, sizeof(*out));
  out->nsze = identity.block_count;
  out->ncap = identity.block_count;
  out->nuse = identity.used_blocks;
  out->nsfeat = static_cast<uint8_t>(
      Flag(identity.thin, kNsfeatThin) |
      Flag(identity.ids_never_reused, kNsfeatIdsNeverReused));
  out->nmic = Flag(identity.shared, kNmicShared);
  out->rescap = identity.rescap;
  out->dlfeat = static_cast<uint8_t>(
      static_cast<uint8_t>(identity.deallocated_read) |
      Flag(identity.write_zeroes_deallocates, kDlfeatDeac));
  out->noiob = identity.optimal_boundary_blocks;
  out->anagrpid = identity.ana_group_id;
  out->nsattr = Flag(identity.write_protected, kNsattrWriteProtected);
  FillOptimal(identity, out);
  FillAtomics(identity, out);
  std::memcpy(out->nguid, identity.nguid.data(), sizeof(out->nguid));
  std::memcpy(out->eui64, identity.eui64.data(), sizeof(out->eui64));
  out->lbaf[0].ds =
      static_cast<uint8_t>(std::countr_zero(identity.block_bytes));
}

void BuildNamespaceDescriptors(const NamespaceIdentity& identity,
                               std::array<std::byte, kIdentifyBytes>* out) {
  out->fill(std::byte{0});
  size_t offset = 0;
  if (!IsZero(identity.eui64)) {
    Append(kNidtEui64, identity.eui64, &offset, out);
  }
  if (!IsZero(identity.nguid)) {
    Append(kNidtNguid, identity.nguid, &offset, out);
  }
  if (!IsZero(identity.uuid)) Append(kNidtUuid, identity.uuid, &offset, out);
  const std::byte csi{kCsiNvm};
  Append(kNidtCsi, absl::MakeConstSpan(&csi, 1), &offset, out);
}

void BuildNvmNamespace(nvme_nvm_id_ns* out) {
  std::memset(out, 0, sizeof(*out));
}

void BuildIndependentNamespace(const NamespaceIdentity& identity,
                               nvme_id_independent_id_ns* out) {
  std::memset(out, 0, sizeof(*out));
  out->nsfeat = static_cast<uint8_t>(
      Flag(identity.ids_never_reused, kIndependentIdsNeverReused) |
      Flag(identity.rotational, kIndependentRotational) |
      Flag(!identity.volatile_write_cache, kIndependentNoCache));
  out->nmic = Flag(identity.shared, kNmicShared);
  out->rescap = identity.rescap;
  out->anagrpid = identity.ana_group_id;
  out->nsattr = Flag(identity.write_protected, kNsattrWriteProtected);
  out->nstat = kNstatReady;
}

void BuildActiveNamespaces(absl::Span<const uint32_t> nsids, uint32_t after,
                           nvme_ns_list* out) {
  SLUICE_DCHECK(std::is_sorted(nsids.begin(), nsids.end()));
  std::memset(out, 0, sizeof(*out));
  const auto first = std::upper_bound(nsids.begin(), nsids.end(), after);
  const auto count =
      std::min(static_cast<size_t>(nsids.end() - first), kNamespaceListMax);
  std::copy_n(first, count, out->ns);
}

void BuildControllerList(absl::Span<const uint16_t> cntlids, uint16_t from,
                         nvme_ctrl_list* out) {
  SLUICE_DCHECK(std::is_sorted(cntlids.begin(), cntlids.end()));
  std::memset(out, 0, sizeof(*out));
  const auto first = std::lower_bound(cntlids.begin(), cntlids.end(), from);
  const auto count =
      std::min(static_cast<size_t>(cntlids.end() - first), kControllerListMax);
  out->num = static_cast<uint16_t>(count);
  std::copy_n(first, count, out->identifier);
}

}  // namespace sluice::nvme
