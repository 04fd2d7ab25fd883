#include "nvme/connect.h"

#include <cstring>

#include "nvme/wire.h"

namespace sluice::nvme {
namespace {

constexpr uint32_t kIattrData = 1u << 16;
constexpr uint32_t kResponseAtr = 1u << 17;
constexpr uint32_t kResponseAscr = 1u << 18;

uint16_t Low(uint32_t cdw) { return static_cast<uint16_t>(cdw); }
uint16_t High(uint32_t cdw) { return static_cast<uint16_t>(cdw >> 16); }

ConnectOutcome Failed(Status status) { return {.status = status, .dw0 = 0}; }

void StartFabrics(FabricsType type, Sqe* sqe) {
  sqe->opcode = kFabricsOpcode;
  sqe->set_fctype(static_cast<uint8_t>(type));
}

}  // namespace

ConnectCommand DecodeConnectCommand(const Sqe& sqe) {
  ConnectCommand command;
  command.record_format = Low(sqe.cdw10);
  command.qid = High(sqe.cdw10);
  command.sqsize = Low(sqe.cdw11);
  command.cattr = static_cast<uint8_t>(sqe.cdw11 >> 16);
  command.kato_ms = sqe.cdw12;
  command.nvmsetid = Low(sqe.cdw13);
  return command;
}

void EncodeConnectCommand(const ConnectCommand& command, Sqe* sqe) {
  StartFabrics(FabricsType::kConnect, sqe);
  sqe->cdw10 = uint32_t{command.qid} << 16 | command.record_format;
  sqe->cdw11 = uint32_t{command.cattr} << 16 | command.sqsize;
  sqe->cdw12 = command.kato_ms;
  sqe->cdw13 = command.nvmsetid;
}

ConnectOutcome ConnectAccepted(uint16_t cntlid, bool authentication) {
  return {.status = kSuccess,
          .dw0 = cntlid | (authentication ? kResponseAtr : 0)};
}

ConnectOutcome InvalidConnectSqe(uint16_t offset_bytes) {
  return {.status = kConnectInvalidParameters.WithDnr(), .dw0 = offset_bytes};
}

ConnectOutcome InvalidConnectData(uint16_t offset_bytes) {
  return {.status = kConnectInvalidParameters.WithDnr(),
          .dw0 = offset_bytes | kIattrData};
}

ConnectOutcome CheckConnectCommand(const ConnectCommand& command,
                                   uint16_t request_qid,
                                   uint16_t request_hsqsize) {
  if (command.record_format != 0) {
    return {.status = kConnectIncompatibleFormat.WithDnr(),
            .dw0 = kConnectRecfmtOffset};  // nvmet gives the offset here too
  }
  if (command.qid != request_qid) return InvalidConnectSqe(kConnectQidOffset);
  if (command.sqsize == 0) return InvalidConnectSqe(kConnectSqsizeOffset);
  if (command.sqsize > request_hsqsize) {
    return InvalidConnectSqe(kConnectSqsizeOffset);
  }
  return {};
}

ConnectOutcome DecodeConnectData(absl::Span<const std::byte> data,
                                 bool is_admin, ConnectData* out) {
  *out = ConnectData();
  if (data.size() < kConnectDataBytes) {
    return Failed(kDataSglLengthInvalid.WithDnr());
  }
  std::memcpy(out->hostid.data(), data.data() + kConnectDataHostidOffset,
              out->hostid.size());
  out->cntlid = Load16(data, kConnectDataCntlidOffset);
  if (!Nqn::FromField(data.subspan(kConnectDataSubnqnOffset, kNqnFieldBytes),
                      &out->subnqn)) {
    return InvalidConnectData(kConnectDataSubnqnOffset);
  }
  if (!Nqn::FromField(data.subspan(kConnectDataHostnqnOffset, kNqnFieldBytes),
                      &out->hostnqn)) {
    return InvalidConnectData(kConnectDataHostnqnOffset);
  }
  if (is_admin && out->cntlid != kCntlidDynamic) {
    return InvalidConnectData(kConnectDataCntlidOffset);
  }
  return {};
}

std::array<std::byte, kConnectDataBytes> EncodeConnectData(
    const ConnectData& data) {
  std::array<std::byte, kConnectDataBytes> bytes{};
  const auto span = absl::MakeSpan(bytes);
  std::memcpy(bytes.data() + kConnectDataHostidOffset, data.hostid.data(),
              data.hostid.size());
  Store16(span, kConnectDataCntlidOffset, data.cntlid);
  data.subnqn.WriteField(
      span.subspan(kConnectDataSubnqnOffset, kNqnFieldBytes));
  data.hostnqn.WriteField(
      span.subspan(kConnectDataHostnqnOffset, kNqnFieldBytes));
  return bytes;
}

ConnectResponse DecodeConnectResponse(uint32_t dw0) {
  return {.cntlid = Low(dw0),
          .authentication_required = (dw0 & kResponseAtr) != 0,
          .secure_channel_required = (dw0 & kResponseAscr) != 0};
}

ConnectErrorLocation DecodeConnectError(uint32_t dw0) {
  return {.offset_bytes = Low(dw0), .in_data = (dw0 & kIattrData) != 0};
}

void EncodeDisconnect(uint16_t record_format, Sqe* sqe) {
  StartFabrics(FabricsType::kDisconnect, sqe);
  sqe->cdw10 = record_format;
}

Status DecodeDisconnect(const Sqe& sqe) {
  if (Low(sqe.cdw10) != 0) return kConnectIncompatibleFormat.WithDnr();
  return kSuccess;
}

}  // namespace sluice::nvme
