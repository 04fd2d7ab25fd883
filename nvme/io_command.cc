#include "nvme/io_command.h"

#include "core/check.h"
#include "nvme/wire.h"

namespace sluice::nvme {
namespace {

// CDW12 [spec §7.2].
constexpr uint32_t kLimitedRetry = 1u << 31;
constexpr uint32_t kFua = 1u << 30;
constexpr uint32_t kPract = 1u << 29;
constexpr int kPrchkShift = 26;
constexpr uint32_t kPrchkMask = 0x7;
constexpr uint32_t kDeac = 1u << 25;
constexpr uint32_t kStc = 1u << 24;
constexpr int kDtypeShift = 20;
constexpr uint32_t kDtypeMask = 0xF;

// CDW11 of Dataset Management [spec §7.5].
constexpr uint32_t kIdr = 1u << 0;
constexpr uint32_t kIdw = 1u << 1;
constexpr uint32_t kAd = 1u << 2;

}  // namespace

BlockCommand DecodeBlock(const Sqe& sqe) {
  BlockCommand command;
  command.slba = sqe.cdw10_11();
  command.nlb = static_cast<uint16_t>(sqe.cdw12);
  command.fua = (sqe.cdw12 & kFua) != 0;
  command.limited_retry = (sqe.cdw12 & kLimitedRetry) != 0;
  command.pract = (sqe.cdw12 & kPract) != 0;
  command.prchk = static_cast<uint8_t>((sqe.cdw12 >> kPrchkShift) & kPrchkMask);
  command.deallocate = (sqe.cdw12 & kDeac) != 0;
  command.storage_tag_check = (sqe.cdw12 & kStc) != 0;
  command.directive_type =
      static_cast<uint8_t>((sqe.cdw12 >> kDtypeShift) & kDtypeMask);
  command.dataset_hints = static_cast<uint8_t>(sqe.cdw13);
  command.directive_specific = static_cast<uint16_t>(sqe.cdw13 >> 16);
  return command;
}

void EncodeBlock(IoOpcode opcode, const BlockCommand& command, Sqe* sqe) {
  sqe->opcode = static_cast<uint8_t>(opcode);
  sqe->set_cdw10_11(command.slba);
  sqe->cdw12 = command.nlb | (command.fua ? kFua : 0) |
               (command.limited_retry ? kLimitedRetry : 0) |
               (command.pract ? kPract : 0) |
               (command.prchk & kPrchkMask) << kPrchkShift |
               (command.deallocate ? kDeac : 0) |
               (command.storage_tag_check ? kStc : 0) |
               (command.directive_type & kDtypeMask) << kDtypeShift;
  sqe->cdw13 =
      uint32_t{command.directive_specific} << 16 | command.dataset_hints;
}

Status CheckRange(uint64_t slba, uint64_t block_count,
                  uint64_t namespace_blocks) {
  if (slba > namespace_blocks) return kLbaOutOfRange.WithDnr();
  if (block_count > namespace_blocks - slba) return kLbaOutOfRange.WithDnr();
  return kSuccess;
}

Status CheckTransfer(uint32_t block_count, uint32_t block_bytes,
                     uint32_t sgl_bytes, uint32_t transfer_bytes_max) {
  const uint64_t needed_bytes = uint64_t{block_count} * block_bytes;
  if (needed_bytes > transfer_bytes_max) return kInvalidField.WithDnr();
  if (needed_bytes > sgl_bytes) return kDataSglLengthInvalid.WithDnr();
  return kSuccess;
}

DsmCommand DecodeDsm(const Sqe& sqe) {
  DsmCommand command;
  command.nr = static_cast<uint8_t>(sqe.cdw10);
  command.hint_read = (sqe.cdw11 & kIdr) != 0;
  command.hint_write = (sqe.cdw11 & kIdw) != 0;
  command.deallocate = (sqe.cdw11 & kAd) != 0;
  return command;
}

void EncodeDsm(const DsmCommand& command, Sqe* sqe) {
  sqe->opcode = static_cast<uint8_t>(IoOpcode::kDatasetManagement);
  sqe->cdw10 = command.nr;
  sqe->cdw11 = (command.hint_read ? kIdr : 0) |
               (command.hint_write ? kIdw : 0) | (command.deallocate ? kAd : 0);
}

DsmRange ReadDsmRange(absl::Span<const std::byte> data, uint32_t index) {
  const size_t offset = index * kDsmRangeBytes;
  SLUICE_CHECK(offset + kDsmRangeBytes <= data.size());
  return {.context_attributes = Load32(data, offset),
          .block_count = Load32(data, offset + 4),
          .slba = Load64(data, offset + 8)};
}

void WriteDsmRange(const DsmRange& range, uint32_t index,
                   absl::Span<std::byte> data) {
  const size_t offset = index * kDsmRangeBytes;
  SLUICE_CHECK(offset + kDsmRangeBytes <= data.size());
  Store32(data, offset, range.context_attributes);
  Store32(data, offset + 4, range.block_count);
  Store64(data, offset + 8, range.slba);
}

}  // namespace sluice::nvme
