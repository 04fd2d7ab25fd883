// A command capsule as a peer may send it: 64 bytes of SQE and what it likes
// behind them, through every decoder that a capsule can reach. What comes out
// must lie inside the bytes received, keep its bounds, and survive being
// encoded and decoded again.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/types/span.h"
#include "core/check.h"
#include "nvme/admin_command.h"
#include "nvme/io_command.h"
#include "nvme/log_page.h"
#include "nvme/property.h"
#include "nvme/sgl.h"
#include "nvme/sqe.h"

namespace sluice::nvme {
namespace {

constexpr uint32_t kTransferMax = 1 << 20;

void FuzzDataPointer(const Sqe& sqe, absl::Span<const std::byte> in_capsule) {
  DataPointer data;
  const Status status = DecodeDataPointer(sqe, in_capsule, kTransferMax, &data);
  SLUICE_CHECK(data.total_bytes() <= kTransferMax);
  SLUICE_CHECK((data.total_bytes() == 0) == (data.kind == DataKind::kNone));
  SLUICE_CHECK(data.keyed_count <= kKeyedDescriptorsMax);
  if (!status.ok()) {
    SLUICE_CHECK(status.dnr());
    SLUICE_CHECK(data.kind == DataKind::kNone);
  }
  uint64_t sum = 0;
  for (const KeyedDescriptor& descriptor : data.descriptors()) {
    SLUICE_CHECK(descriptor.length_bytes > 0);
    SLUICE_CHECK(descriptor.length_bytes <= kKeyedLengthBytesMax);
    sum += descriptor.length_bytes;
  }
  switch (data.kind) {
    case DataKind::kNone:
      SLUICE_CHECK(sum == 0);
      SLUICE_CHECK(!data.invalidate);
      break;
    case DataKind::kInCapsule:
      SLUICE_CHECK(sum == 0);
      SLUICE_CHECK(uint64_t{data.offset_bytes} + data.total_bytes() <=
                   in_capsule.size());
      SLUICE_CHECK(sqe.direction() == Direction::kHostToController);
      break;
    case DataKind::kKeyed:
      SLUICE_CHECK(sum == data.total_bytes());
      break;
  }
}

void FuzzSgl(const Sqe& sqe) {
  const SglDescriptor read = ReadSgl(absl::MakeConstSpan(sqe.sgl));
  const SglDescriptor again = ReadSgl(EncodeSgl(read));
  SLUICE_CHECK(again.id == read.id);
  SLUICE_CHECK(again.address == read.address);
  SLUICE_CHECK(again.length_bytes == read.length_bytes);
  SLUICE_CHECK(again.key == read.key);
}

void FuzzIo(const Sqe& sqe, absl::Span<const std::byte> in_capsule) {
  const BlockCommand block = DecodeBlock(sqe);
  SLUICE_CHECK(block.block_count() >= 1);
  SLUICE_CHECK(block.block_count() <= kBlocksPerCommandMax);
  Sqe again;
  EncodeBlock(IoOpcode::kRead, block, &again);
  SLUICE_CHECK(again.cdw10_11() == sqe.cdw10_11());
  SLUICE_CHECK(again.cdw12 == (sqe.cdw12 & 0xFFF0FFFF));

  const uint64_t namespace_blocks = sqe.mptr;
  if (CheckRange(block.slba, block.block_count(), namespace_blocks).ok()) {
    SLUICE_CHECK(block.slba < namespace_blocks);
    SLUICE_CHECK(block.slba + (block.block_count() - 1) >= block.slba);
    SLUICE_CHECK(block.slba + (block.block_count() - 1) < namespace_blocks);
  }
  const DsmCommand dsm = DecodeDsm(sqe);
  SLUICE_CHECK(dsm.range_count() <= kDsmRangesMax);
  if (dsm.data_bytes() > in_capsule.size()) return;
  std::vector<std::byte> copy(dsm.data_bytes());
  for (uint32_t i = 0; i < dsm.range_count(); ++i) {
    WriteDsmRange(ReadDsmRange(in_capsule, i), i, absl::MakeSpan(copy));
  }
  SLUICE_CHECK(std::memcmp(copy.data(), in_capsule.data(), copy.size()) == 0);
}

void FuzzAdmin(const Sqe& sqe, absl::Span<const std::byte> log) {
  GetLogPageCommand get;
  const Status status = DecodeGetLogPage(sqe, &get);
  SLUICE_CHECK(get.length_bytes >= 4);
  SLUICE_CHECK(get.length_bytes <= uint64_t{1} << 34);
  SLUICE_CHECK(get.length_bytes % 4 == 0);
  Sqe again;
  EncodeGetLogPage(get, &again);
  SLUICE_CHECK(again.cdw10 == sqe.cdw10);
  SLUICE_CHECK(again.cdw11 == sqe.cdw11);
  SLUICE_CHECK(again.cdw12_13() == sqe.cdw12_13());
  if (status.ok() && get.length_bytes <= 4096) {
    std::vector<std::byte> out(get.length_bytes);
    const Status copied =
        CopyLogSlice(log, get.offset_bytes, absl::MakeSpan(out));
    SLUICE_CHECK(copied.ok() == (get.offset_bytes <= log.size()));
  }

  EncodeIdentify(DecodeIdentify(sqe), &again);
  SLUICE_CHECK(DecodeIdentify(again).cntid == DecodeIdentify(sqe).cntid);
  EncodeSetFeatures(DecodeSetFeatures(sqe), &again);
  SLUICE_CHECK(again.cdw11 == sqe.cdw11);
  EncodeGetFeatures(DecodeGetFeatures(sqe), &again);
  SLUICE_CHECK(again.cdw10 == (sqe.cdw10 & 0x7FF));
  EncodeAbort(DecodeAbort(sqe), &again);
  SLUICE_CHECK(again.cdw10 == sqe.cdw10);
  QueueCounts counts;
  if (DecodeQueueCounts(sqe.cdw11, &counts).ok()) {
    SLUICE_CHECK(EncodeQueueCounts(counts) == sqe.cdw11);
  }
}

void FuzzProperty(const Sqe& sqe) {
  PropertyCommand command;
  if (DecodePropertySet(sqe, &command).ok()) {
    SLUICE_CHECK(command.length_bytes == 4 || command.length_bytes == 8);
    SLUICE_CHECK(command.length_bytes == 8 || command.value <= UINT32_MAX);
  }
  SLUICE_CHECK(EncodeCap(DecodeCap(EncodeCap(DecodeCap(sqe.mptr)))) ==
               EncodeCap(DecodeCap(sqe.mptr)));
  SLUICE_CHECK(EncodeCc(DecodeCc(sqe.cdw12)) == (sqe.cdw12 & 0x01FFFFF1));
  if (CanEnable(DecodeCc(sqe.cdw12), Capabilities(), false)) {
    SLUICE_CHECK((sqe.cdw12 & 0x00FF3FF0) == 0x00460000);
  }
}

}  // namespace
}  // namespace sluice::nvme

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice::nvme;  // NOLINT: the entry point has no namespace
  if (size < kSqeBytes) return 0;
  std::vector<std::byte> capsule(size);  // its end is known to ASan
  std::memcpy(capsule.data(), data, size);
  const Sqe sqe = ReadSqe(capsule);
  const auto in_capsule = absl::MakeConstSpan(capsule).subspan(kSqeBytes);

  if (CheckFlags(sqe, /*fused_served=*/false).ok()) {
    SLUICE_CHECK((sqe.flags & 0xC3) == 0x40);
  }
  FuzzDataPointer(sqe, in_capsule);
  FuzzSgl(sqe);
  FuzzIo(sqe, in_capsule);
  FuzzAdmin(sqe, in_capsule);
  FuzzProperty(sqe);
  return 0;
}
