// Sizes and limits of the protocol that are fixed at compile time, with the
// relations between them. Offsets are in spec/nvme-of-rdma.md; what an operator
// may turn lives in the Options of target/ and initiator/.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::nvme {

// Capsules [spec §2.1].
inline constexpr size_t kSqeBytes = 64;
inline constexpr size_t kCqeBytes = 16;
inline constexpr size_t kSglDescriptorBytes = 16;
// IOCCSZ and IORCSZ count in these.
inline constexpr size_t kCapsuleUnitBytes = 16;

// Keyed descriptors of one command: MSDBD, and what SPDK sends at most
// [spec §2.4].
inline constexpr size_t kKeyedDescriptorsMax = 16;
// The length field of a keyed descriptor has 24 bits.
inline constexpr uint32_t kKeyedLengthBytesMax = (uint32_t{1} << 24) - 1;

// Connection management [spec §1.2-1.4].
inline constexpr size_t kConnectRequestBytes = 32;
inline constexpr size_t kConnectAcceptBytes = 32;
inline constexpr size_t kConnectRejectBytes = 4;
inline constexpr size_t kConnectDataBytes = 1024;
inline constexpr uint16_t kDefaultPort = 4420;

// Linux always makes its admin queue this deep [spec §1.8].
inline constexpr uint32_t kAdminDepthMin = 32;
// QID, SQSIZE and MQES have 16 bits, the last two 0's based.
inline constexpr uint32_t kQueueDepthMax = 65536;

// Controller ids that Connect may hand out [spec §3.2].
inline constexpr uint16_t kCntlidMin = 1;
inline constexpr uint16_t kCntlidMax = 0xFFEF;
inline constexpr uint16_t kCntlidDynamic = 0xFFFF;
inline constexpr uint16_t kCntlidStatic = 0xFFFE;

inline constexpr uint32_t kNsidBroadcast = 0xFFFFFFFF;

// NQNs: at most 223 bytes and a NUL, in fields of 256.
inline constexpr size_t kNqnLengthMax = 223;
inline constexpr size_t kNqnFieldBytes = 256;

inline constexpr size_t kIdentifyBytes = 4096;
inline constexpr size_t kNamespaceListMax = 1024;
inline constexpr size_t kControllerListMax = 2047;

// NLB has 16 bits and NR has 8, both 0's based [spec §7.2, §7.5].
inline constexpr uint32_t kBlocksPerCommandMax = 65536;
inline constexpr uint32_t kDsmRangesMax = 256;
inline constexpr size_t kDsmRangeBytes = 16;

// One page is the unit of MDTS as long as CAP.MPSMIN is 0 [spec §3.3].
inline constexpr uint32_t kPageBytesMin = 4096;

inline constexpr size_t kDiscoveryHeaderBytes = 1024;
inline constexpr size_t kDiscoveryEntryBytes = 1024;

static_assert(kSqeBytes % kCapsuleUnitBytes == 0);
static_assert(kCqeBytes % kCapsuleUnitBytes == 0);
// The sum of all descriptors of a command fits a uint32_t.
static_assert(uint64_t{kKeyedLengthBytesMax} * kKeyedDescriptorsMax <=
              UINT32_MAX);
static_assert(kNqnLengthMax < kNqnFieldBytes);
static_assert(kDsmRangesMax * kDsmRangeBytes == 4096);
static_assert(kNamespaceListMax * sizeof(uint32_t) == kIdentifyBytes);
static_assert((kControllerListMax + 1) * sizeof(uint16_t) == kIdentifyBytes);

}  // namespace sluice::nvme
