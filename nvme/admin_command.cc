#include "nvme/admin_command.h"

namespace sluice::nvme {
namespace {

constexpr uint32_t kUuidIndexMask = 0x7F;
constexpr uint32_t kRetainEvent = 1u << 15;
constexpr uint32_t kIndexOffset = 1u << 23;
constexpr uint32_t kSave = 1u << 31;

uint8_t Byte(uint32_t cdw, int shift) {
  return static_cast<uint8_t>(cdw >> shift);
}
uint16_t Low(uint32_t cdw) { return static_cast<uint16_t>(cdw); }
uint16_t High(uint32_t cdw) { return static_cast<uint16_t>(cdw >> 16); }

void SetOpcode(AdminOpcode opcode, Sqe* sqe) {
  sqe->opcode = static_cast<uint8_t>(opcode);
}

}  // namespace

IdentifyCommand DecodeIdentify(const Sqe& sqe) {
  IdentifyCommand command;
  command.cns = Byte(sqe.cdw10, 0);
  command.cntid = High(sqe.cdw10);
  command.specific_id = Low(sqe.cdw11);
  command.csi = Byte(sqe.cdw11, 24);
  command.uuid_index = static_cast<uint8_t>(sqe.cdw14 & kUuidIndexMask);
  return command;
}

void EncodeIdentify(const IdentifyCommand& command, Sqe* sqe) {
  SetOpcode(AdminOpcode::kIdentify, sqe);
  sqe->cdw10 = uint32_t{command.cntid} << 16 | command.cns;
  sqe->cdw11 = uint32_t{command.csi} << 24 | command.specific_id;
  sqe->cdw14 = command.uuid_index & kUuidIndexMask;
}

Status DecodeGetLogPage(const Sqe& sqe, GetLogPageCommand* out) {
  *out = GetLogPageCommand();
  out->lid = Byte(sqe.cdw10, 0);
  out->lsp = static_cast<uint8_t>(Byte(sqe.cdw10, 8) & 0x7F);
  out->retain_event = (sqe.cdw10 & kRetainEvent) != 0;
  const uint64_t numd = uint64_t{Low(sqe.cdw11)} << 16 | High(sqe.cdw10);
  out->length_bytes = (numd + 1) * sizeof(uint32_t);
  out->lsi = High(sqe.cdw11);
  out->offset_bytes = sqe.cdw12_13();
  out->uuid_index = static_cast<uint8_t>(sqe.cdw14 & kUuidIndexMask);
  out->index_offset = (sqe.cdw14 & kIndexOffset) != 0;
  out->csi = Byte(sqe.cdw14, 24);
  if (out->index_offset) return kInvalidField.WithDnr();
  if (out->offset_bytes % sizeof(uint32_t) != 0) return kInvalidField.WithDnr();
  return kSuccess;
}

void EncodeGetLogPage(const GetLogPageCommand& command, Sqe* sqe) {
  SetOpcode(AdminOpcode::kGetLogPage, sqe);
  const uint64_t dwords =
      (command.length_bytes + sizeof(uint32_t) - 1) / sizeof(uint32_t);
  const auto numd = static_cast<uint32_t>(dwords - 1);
  sqe->cdw10 = uint32_t{Low(numd)} << 16 |
               (command.retain_event ? kRetainEvent : 0) |
               (command.lsp & 0x7Fu) << 8 | command.lid;
  sqe->cdw11 = uint32_t{command.lsi} << 16 | High(numd);
  sqe->set_cdw12_13(command.offset_bytes);
  sqe->cdw14 = uint32_t{command.csi} << 24 |
               (command.index_offset ? kIndexOffset : 0) |
               (command.uuid_index & kUuidIndexMask);
}

SetFeaturesCommand DecodeSetFeatures(const Sqe& sqe) {
  return {.fid = Byte(sqe.cdw10, 0),
          .save = (sqe.cdw10 & kSave) != 0,
          .cdw11 = sqe.cdw11,
          .cdw12 = sqe.cdw12,
          .cdw13 = sqe.cdw13,
          .cdw14 = sqe.cdw14,
          .cdw15 = sqe.cdw15};
}

void EncodeSetFeatures(const SetFeaturesCommand& command, Sqe* sqe) {
  SetOpcode(AdminOpcode::kSetFeatures, sqe);
  sqe->cdw10 = command.fid | (command.save ? kSave : 0);
  sqe->cdw11 = command.cdw11;
  sqe->cdw12 = command.cdw12;
  sqe->cdw13 = command.cdw13;
  sqe->cdw14 = command.cdw14;
  sqe->cdw15 = command.cdw15;
}

GetFeaturesCommand DecodeGetFeatures(const Sqe& sqe) {
  return {.fid = Byte(sqe.cdw10, 0),
          .select = static_cast<uint8_t>(Byte(sqe.cdw10, 8) & 0x7),
          .cdw11 = sqe.cdw11,
          .cdw14 = sqe.cdw14};
}

void EncodeGetFeatures(const GetFeaturesCommand& command, Sqe* sqe) {
  SetOpcode(AdminOpcode::kGetFeatures, sqe);
  sqe->cdw10 = command.fid | (command.select & 0x7u) << 8;
  sqe->cdw11 = command.cdw11;
  sqe->cdw14 = command.cdw14;
}

Status DecodeQueueCounts(uint32_t cdw11, QueueCounts* out) {
  out->submission = uint32_t{Low(cdw11)} + 1;
  out->completion = uint32_t{High(cdw11)} + 1;
  if (Low(cdw11) == 0xFFFF) return kInvalidField.WithDnr();
  if (High(cdw11) == 0xFFFF) return kInvalidField.WithDnr();
  return kSuccess;
}

uint32_t EncodeQueueCounts(const QueueCounts& counts) {
  return uint32_t{Low(counts.completion - 1)} << 16 |
         Low(counts.submission - 1);
}

AbortCommand DecodeAbort(const Sqe& sqe) {
  return {.sqid = Low(sqe.cdw10), .cid = High(sqe.cdw10)};
}

void EncodeAbort(const AbortCommand& command, Sqe* sqe) {
  SetOpcode(AdminOpcode::kAbort, sqe);
  sqe->cdw10 = uint32_t{command.cid} << 16 | command.sqid;
}

}  // namespace sluice::nvme
