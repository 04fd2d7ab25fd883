// The discovery log, LID 70h: a header and one entry for each way to reach a
// subsystem, 1024 bytes each [spec §5.2]. The target builds it when something
// changes and serves slices of that one snapshot; the initiator reads it.
// Setup path: these functions may allocate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nvme/libnvme_types.h"
#include "nvme/limits.h"

namespace sluice::nvme {

enum class TransportType : uint8_t {
  kRdma = 1,
  kFibreChannel = 2,
  kTcp = 3,
  kLoop = 254,
};

enum class AddressFamily : uint8_t { kIpv4 = 1, kIpv6 = 2, kIb = 3 };

enum class SubsystemType : uint8_t {
  kReferral = 1,  // another discovery service
  kNvm = 2,
  kCurrentDiscovery = 3,  // this service itself: comes first
};

// PRTYPE.
enum class RdmaProvider : uint8_t {
  kUnspecified = 1,
  kInfiniBand = 2,
  kRoceV1 = 3,
  kRoceV2 = 4,
  kIwarp = 5,
};

// TREQ: bits 1:0 secure channel, bit 2 SQ flow control can be disabled.
inline constexpr uint8_t kTreqSecureNotRequired = 2;
inline constexpr uint8_t kTreqDisableFlowControl = 1 << 2;
// EFLAGS, true only where persistent connections work.
inline constexpr uint16_t kEflagsDuplicate = 1 << 0;
inline constexpr uint16_t kEflagsPersistent = 1 << 1;

struct DiscoveryEntry {
  TransportType transport = TransportType::kRdma;
  AddressFamily family = AddressFamily::kIpv4;
  SubsystemType subtype = SubsystemType::kNvm;
  uint8_t treq = 0;
  uint16_t port_id = 0;
  uint16_t cntlid = kCntlidDynamic;
  uint16_t admin_depth_max = kAdminDepthMin;  // ASQSZ
  uint16_t eflags = 0;
  std::string service;  // TRSVCID: "4420", at most 31 characters
  std::string subnqn;   // at most 223
  std::string address;  // TRADDR: to connect to, never a wildcard; at most 255
  RdmaProvider provider = RdmaProvider::kUnspecified;
};

// The whole log: 1024 bytes and 1024 per entry. Texts that are too long are
// cut. `generation` (GENCTR) must rise whenever the contents change.
std::vector<std::byte> BuildDiscoveryLog(
    uint64_t generation, absl::Span<const DiscoveryEntry> entries);

struct DiscoveryHeader {
  uint64_t generation = 0;
  uint64_t entry_count = 0;  // NUMREC: the peer's word, to be bounded
};

// From the first 18 bytes or more. Errors: kInvalidArgument for a short header
// or a record format other than 0.
absl::StatusOr<DiscoveryHeader> DecodeDiscoveryHeader(
    absl::Span<const std::byte> bytes);

// One entry, of 1024 bytes or more. Strips the NULs and spaces that targets pad
// texts with. Errors: kInvalidArgument for a short entry or a SUBNQN that is
// none.
absl::StatusOr<DiscoveryEntry> DecodeDiscoveryEntry(
    absl::Span<const std::byte> bytes);

}  // namespace sluice::nvme
