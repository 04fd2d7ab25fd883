// Admin commands: what their dwords say [spec §6]. Numbers a peer may choose
// freely (CNS, LID, FID) stay bytes; switch over `static_cast<Cns>(…)` with a
// default. Nothing is allocated.
//
// Encoders set opcode and dwords; cid, nsid and sgl are the caller's. Async
// Event Request and Keep Alive have no fields: their opcode says it all.
#pragma once

#include <cstdint>

#include "nvme/opcodes.h"
#include "nvme/sqe.h"
#include "nvme/status.h"

namespace sluice::nvme {

// [spec §6.2]
struct IdentifyCommand {
  uint8_t cns = 0;
  uint16_t cntid = 0;
  uint16_t specific_id = 0;  // CNS-specific
  uint8_t csi = 0;
  uint8_t uuid_index = 0;  // 7 bits
};

IdentifyCommand DecodeIdentify(const Sqe& sqe);
void EncodeIdentify(const IdentifyCommand& command, Sqe* sqe);

// [spec §6.6]
struct GetLogPageCommand {
  uint8_t lid = 0;
  uint8_t lsp = 0;            // 7 bits
  bool retain_event = false;  // RAE: the event stays masked
  uint16_t lsi = 0;           // log specific id
  uint64_t length_bytes = 4;  // (NUMD + 1) * 4: 4..2^34
  uint64_t offset_bytes = 0;  // LPO
  uint8_t csi = 0;
  uint8_t uuid_index = 0;     // 7 bits
  bool index_offset = false;  // OT: LPO is an index, of which we have none
};

// kInvalidField with DNR when LPO is no multiple of 4 or OT is set; *out is
// filled in any case.
Status DecodeGetLogPage(const Sqe& sqe, GetLogPageCommand* out);
// length_bytes is rounded up to dwords.
void EncodeGetLogPage(const GetLogPageCommand& command, Sqe* sqe);

// [spec §6.7]
struct SetFeaturesCommand {
  uint8_t fid = 0;
  bool save = false;  // SV
  uint32_t cdw11 = 0;
  uint32_t cdw12 = 0;
  uint32_t cdw13 = 0;
  uint32_t cdw14 = 0;
  uint32_t cdw15 = 0;
};

SetFeaturesCommand DecodeSetFeatures(const Sqe& sqe);
void EncodeSetFeatures(const SetFeaturesCommand& command, Sqe* sqe);

struct GetFeaturesCommand {
  uint8_t fid = 0;
  uint8_t select = 0;  // SEL, 3 bits: see FeatureSelect
  uint32_t cdw11 = 0;
  uint32_t cdw14 = 0;  // UUID index
};

GetFeaturesCommand DecodeGetFeatures(const Sqe& sqe);
void EncodeGetFeatures(const GetFeaturesCommand& command, Sqe* sqe);

// Feature 07h, in CDW11 of Set Features and in DW0 of the answer. True numbers.
struct QueueCounts {
  uint32_t submission = 1;  // 1..65536
  uint32_t completion = 1;
};

// kInvalidField with DNR for FFFFh in either half, which asks for 65536.
Status DecodeQueueCounts(uint32_t cdw11, QueueCounts* out);
uint32_t EncodeQueueCounts(const QueueCounts& counts);

// [spec §6.9]
struct AbortCommand {
  uint16_t sqid = 0;
  uint16_t cid = 0;
};

AbortCommand DecodeAbort(const Sqe& sqe);
void EncodeAbort(const AbortCommand& command, Sqe* sqe);
// DW0 of Abort's answer.
inline constexpr uint32_t kAborted = 0;
inline constexpr uint32_t kNotAborted = 1;

}  // namespace sluice::nvme
