// Where a command's data is: the descriptors of an SQE, checked and turned into
// a DataPointer [spec §2.4, §2.9]. Decoding allocates nothing and trusts
// nothing; a DataPointer that came back with success never points outside the
// bytes that were received.
//
// Served: 01h data block by offset (in the capsule), 40h keyed, 4Fh keyed with
// invalidation, 31h last segment by offset, which holds up to
// kKeyedDescriptorsMax descriptors of 40h inside the capsule.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "nvme/limits.h"
#include "nvme/sqe.h"
#include "nvme/status.h"

namespace sluice::nvme {

// Byte 15 of a descriptor: type in the high nibble, subtype in the low one.
inline constexpr uint8_t kSglDataOffset = 0x01;
inline constexpr uint8_t kSglLastSegmentOffset = 0x31;
inline constexpr uint8_t kSglKeyed = 0x40;
inline constexpr uint8_t kSglKeyedInvalidate = 0x4F;

enum class DataKind : uint8_t { kNone, kInCapsule, kKeyed };

// A piece of host memory, reachable by RDMA READ and WRITE.
struct KeyedDescriptor {
  uint64_t address;
  uint32_t length_bytes;  // 1..kKeyedLengthBytesMax once decoded
  uint32_t key;
};

struct DataPointer {
  DataKind kind = DataKind::kNone;

  // The response should be a SEND_WITH_INV of this key. Optional for the
  // target: a plain SEND is always right [spec §2.8].
  bool invalidate = false;
  uint32_t invalidate_key = 0;

  // kInCapsule: offset into the bytes behind the SQE.
  uint32_t offset_bytes = 0;

  // kKeyed: the first `keyed_count` of `keyed` are set, the rest is not.
  uint32_t keyed_count = 0;

  // Sum of all pieces; 0 exactly when kind is kNone.
  uint32_t length_bytes = 0;

  std::array<KeyedDescriptor, kKeyedDescriptorsMax> keyed;

  uint32_t total_bytes() const { return length_bytes; }
  // Valid as long as this DataPointer.
  absl::Span<const KeyedDescriptor> descriptors() const {
    return absl::MakeConstSpan(keyed.data(), keyed_count);
  }
};

// Decodes sqe.sgl. `in_capsule` is what was received behind the first 64 bytes
// and no more. `transfer_bytes_max` bounds the sum of all descriptors; a host
// may offer more than a command needs, so this is a bound on buffers, and the
// command's own need is compared with total_bytes() later. A keyed descriptor
// of length 0 means no data, whatever its key. On an error *out says kNone.
//
// Errors, all with DNR; nvmet's codes where it has one:
//   kInvalidField          01h on a command that sends no data to the
//                          controller; unknown subtype of 0xh or 4xh
//   kSglTypeInvalid        any other id; not 40h inside a 31h segment
//   kSglOffsetInvalid      01h or 31h outside the bytes received
//   kInvalidSglSegment     31h whose length is 0 or no multiple of 16
//   kInvalidSglCount       31h with more than kKeyedDescriptorsMax descriptors
//   kDataSglLengthInvalid  the sum is above transfer_bytes_max
Status DecodeDataPointer(const Sqe& sqe, absl::Span<const std::byte> in_capsule,
                         uint32_t transfer_bytes_max, DataPointer* out);

// One descriptor with any contents. Type 4h takes the keyed layout (the low 24
// bits of the length, and the key), all others the unkeyed one (no key).
struct SglDescriptor {
  uint8_t id = kSglKeyed;
  uint64_t address = 0;  // or the offset
  uint32_t length_bytes = 0;
  uint32_t key = 0;
};

SglBytes EncodeSgl(const SglDescriptor& descriptor);

// What lies in the 16 bytes, unchecked.
SglDescriptor ReadSgl(absl::Span<const std::byte> bytes);

// The usual ones, for SQE.SGL1.
SglBytes EncodeInCapsule(uint64_t offset_bytes, uint32_t length_bytes);
SglBytes EncodeKeyed(const KeyedDescriptor& descriptor, bool invalidate);
SglBytes EncodeLastSegment(uint64_t offset_bytes, uint32_t length_bytes);

// The list that a 31h descriptor points to: writes 16 bytes per descriptor to
// `in_capsule`, which must be large enough. Returns the bytes written.
size_t EncodeKeyedList(absl::Span<const KeyedDescriptor> descriptors,
                       absl::Span<std::byte> in_capsule);

}  // namespace sluice::nvme
