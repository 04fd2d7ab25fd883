#include "nvme/sgl.h"

#include "core/check.h"
#include "nvme/wire.h"

namespace sluice::nvme {
namespace {

constexpr uint8_t kTypeDataBlock = 0x0;
constexpr uint8_t kTypeKeyed = 0x4;

uint8_t TypeOf(uint8_t id) { return id >> 4; }

// Field by field: a new DataPointer would be 256 bytes to clear per command.
void Reset(DataPointer* out) {
  out->kind = DataKind::kNone;
  out->invalidate = false;
  out->invalidate_key = 0;
  out->offset_bytes = 0;
  out->keyed_count = 0;
  out->length_bytes = 0;
}

// True if [offset, offset + length) lies within the bytes received.
bool Inside(uint64_t offset_bytes, uint64_t length_bytes,
            absl::Span<const std::byte> in_capsule) {
  return offset_bytes <= in_capsule.size() &&
         length_bytes <= in_capsule.size() - offset_bytes;
}

// Zero lengths carry nothing and are not kept.
void AddKeyed(const SglDescriptor& descriptor, DataPointer* out) {
  if (descriptor.length_bytes == 0) return;
  SLUICE_CHECK(out->keyed_count < kKeyedDescriptorsMax);
  out->keyed[out->keyed_count++] = {.address = descriptor.address,
                                    .length_bytes = descriptor.length_bytes,
                                    .key = descriptor.key};
  out->length_bytes += descriptor.length_bytes;
  out->kind = DataKind::kKeyed;
}

Status DecodeInCapsule(const Sqe& sqe, const SglDescriptor& descriptor,
                       absl::Span<const std::byte> in_capsule,
                       DataPointer* out) {
  if (sqe.direction() != Direction::kHostToController) {
    return kInvalidField.WithDnr();
  }
  if (!Inside(descriptor.address, descriptor.length_bytes, in_capsule)) {
    return kSglOffsetInvalid.WithDnr();
  }
  if (descriptor.length_bytes == 0) return kSuccess;
  out->kind = DataKind::kInCapsule;
  out->offset_bytes = static_cast<uint32_t>(descriptor.address);
  out->length_bytes = descriptor.length_bytes;
  return kSuccess;
}

Status DecodeKeyed(const SglDescriptor& descriptor, DataPointer* out) {
  AddKeyed(descriptor, out);
  // nvmet invalidates nothing for a command without data.
  if (descriptor.id == kSglKeyedInvalidate && out->keyed_count == 1) {
    out->invalidate = true;
    out->invalidate_key = descriptor.key;
  }
  return kSuccess;
}

Status DecodeLastSegment(const SglDescriptor& segment,
                         absl::Span<const std::byte> in_capsule,
                         DataPointer* out) {
  if (segment.length_bytes == 0 ||
      segment.length_bytes % kSglDescriptorBytes != 0) {
    return kInvalidSglSegment.WithDnr();
  }
  if (!Inside(segment.address, segment.length_bytes, in_capsule)) {
    return kSglOffsetInvalid.WithDnr();
  }
  const size_t count = segment.length_bytes / kSglDescriptorBytes;
  if (count > kKeyedDescriptorsMax) return kInvalidSglCount.WithDnr();

  const auto list = in_capsule.subspan(segment.address, segment.length_bytes);
  for (size_t i = 0; i < count; ++i) {
    const SglDescriptor inner =
        ReadSgl(list.subspan(i * kSglDescriptorBytes, kSglDescriptorBytes));
    if (inner.id != kSglKeyed) return kSglTypeInvalid.WithDnr();
    AddKeyed(inner, out);
  }
  return kSuccess;
}

Status DecodeAny(const Sqe& sqe, absl::Span<const std::byte> in_capsule,
                 DataPointer* out) {
  const SglDescriptor descriptor = ReadSgl(absl::MakeConstSpan(sqe.sgl));
  switch (descriptor.id) {
    case kSglKeyed:
    case kSglKeyedInvalidate:
      return DecodeKeyed(descriptor, out);
    case kSglDataOffset:
      return DecodeInCapsule(sqe, descriptor, in_capsule, out);
    case kSglLastSegmentOffset:
      return DecodeLastSegment(descriptor, in_capsule, out);
    default:
      break;
  }
  const uint8_t type = TypeOf(descriptor.id);
  if (type == kTypeDataBlock || type == kTypeKeyed) {
    return kInvalidField.WithDnr();
  }
  return kSglTypeInvalid.WithDnr();
}

}  // namespace

Status DecodeDataPointer(const Sqe& sqe, absl::Span<const std::byte> in_capsule,
                         uint32_t transfer_bytes_max, DataPointer* out) {
  SLUICE_DCHECK(in_capsule.size() <= UINT32_MAX);
  Reset(out);
  Status status = DecodeAny(sqe, in_capsule, out);
  if (status.ok() && out->length_bytes > transfer_bytes_max) {
    status = kDataSglLengthInvalid.WithDnr();
  }
  if (!status.ok()) Reset(out);
  return status;
}

SglBytes EncodeSgl(const SglDescriptor& descriptor) {
  SglBytes bytes{};
  const auto span = absl::MakeSpan(bytes);
  Store64(span, 0, descriptor.address);
  Store32(span, 8, descriptor.length_bytes);
  if (TypeOf(descriptor.id) == kTypeKeyed) Store32(span, 11, descriptor.key);
  Store8(span, 15, descriptor.id);
  return bytes;
}

SglDescriptor ReadSgl(absl::Span<const std::byte> bytes) {
  SLUICE_CHECK(bytes.size() >= kSglDescriptorBytes);
  SglDescriptor descriptor;
  descriptor.id = Load8(bytes, 15);
  descriptor.address = Load64(bytes, 0);
  descriptor.length_bytes = Load32(bytes, 8);
  if (TypeOf(descriptor.id) == kTypeKeyed) {
    descriptor.length_bytes &= kKeyedLengthBytesMax;
    descriptor.key = Load32(bytes, 11);
  }
  return descriptor;
}

SglBytes EncodeInCapsule(uint64_t offset_bytes, uint32_t length_bytes) {
  return EncodeSgl({.id = kSglDataOffset,
                    .address = offset_bytes,
                    .length_bytes = length_bytes});
}

SglBytes EncodeKeyed(const KeyedDescriptor& descriptor, bool invalidate) {
  return EncodeSgl({.id = invalidate ? kSglKeyedInvalidate : kSglKeyed,
                    .address = descriptor.address,
                    .length_bytes = descriptor.length_bytes,
                    .key = descriptor.key});
}

SglBytes EncodeLastSegment(uint64_t offset_bytes, uint32_t length_bytes) {
  return EncodeSgl({.id = kSglLastSegmentOffset,
                    .address = offset_bytes,
                    .length_bytes = length_bytes});
}

size_t EncodeKeyedList(absl::Span<const KeyedDescriptor> descriptors,
                       absl::Span<std::byte> in_capsule) {
  SLUICE_CHECK(in_capsule.size() >= descriptors.size() * kSglDescriptorBytes);
  for (size_t i = 0; i < descriptors.size(); ++i) {
    const SglBytes bytes = EncodeKeyed(descriptors[i], /*invalidate=*/false);
    std::memcpy(in_capsule.data() + i * kSglDescriptorBytes, bytes.data(),
                bytes.size());
  }
  return descriptors.size() * kSglDescriptorBytes;
}

}  // namespace sluice::nvme
