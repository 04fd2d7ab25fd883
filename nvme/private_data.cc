#include "nvme/private_data.h"

#include "nvme/wire.h"

namespace sluice::nvme {

const char* RejectReasonName(RejectReason reason) {
  switch (reason) {
    case RejectReason::kNone:
      return "none";
    case RejectReason::kInvalidPrivateDataLength:
      return "invalid private data length";
    case RejectReason::kInvalidRecordFormat:
      return "invalid RECFMT";
    case RejectReason::kInvalidQid:
      return "invalid QID";
    case RejectReason::kInvalidHsqsize:
      return "invalid HSQSIZE";
    case RejectReason::kInvalidHrqsize:
      return "invalid HRQSIZE";
    case RejectReason::kNoResources:
      return "no resources";
    case RejectReason::kInvalidIrd:
      return "invalid IRD";
    case RejectReason::kInvalidOrd:
      return "invalid ORD";
    case RejectReason::kInvalidCntlid:
      return "invalid CNTLID";
  }
  return "unknown reason";  // a peer may send any number
}

RejectReason DecodeConnectRequest(absl::Span<const std::byte> private_data,
                                  const ConnectRequestLimits& limits,
                                  ConnectRequest* out) {
  *out = ConnectRequest();
  if (private_data.size() < kConnectRequestBytes) {
    return RejectReason::kInvalidPrivateDataLength;
  }
  out->record_format = Load16(private_data, 0);
  out->qid = Load16(private_data, 2);
  out->hrqsize = Load16(private_data, 4);
  out->hsqsize = Load16(private_data, 6);
  out->cntlid = Load16(private_data, 8);

  if (out->record_format != 0) return RejectReason::kInvalidRecordFormat;
  if (out->qid > limits.qid_max) return RejectReason::kInvalidQid;
  const uint32_t depth_max =
      out->is_admin() ? limits.admin_depth_max : limits.io_depth_max;
  // A queue has two entries at least.
  if (out->hsqsize == 0) return RejectReason::kInvalidHsqsize;
  if (out->queue_depth() > depth_max) return RejectReason::kInvalidHsqsize;
  if (out->hrqsize == 0) return RejectReason::kInvalidHrqsize;
  return RejectReason::kNone;
}

std::array<std::byte, kConnectRequestBytes> EncodeConnectRequest(
    const ConnectRequest& request) {
  std::array<std::byte, kConnectRequestBytes> bytes{};
  const auto span = absl::MakeSpan(bytes);
  Store16(span, 0, request.record_format);
  Store16(span, 2, request.qid);
  Store16(span, 4, request.hrqsize);
  Store16(span, 6, request.hsqsize);
  Store16(span, 8, request.cntlid);
  return bytes;
}

bool DecodeConnectAccept(absl::Span<const std::byte> private_data,
                         ConnectAccept* out) {
  *out = ConnectAccept();
  if (private_data.size() < kConnectAcceptBytes) return false;
  out->record_format = Load16(private_data, 0);
  out->crqsize = Load16(private_data, 2);
  return true;
}

std::array<std::byte, kConnectAcceptBytes> EncodeConnectAccept(
    const ConnectAccept& accept) {
  std::array<std::byte, kConnectAcceptBytes> bytes{};
  const auto span = absl::MakeSpan(bytes);
  Store16(span, 0, accept.record_format);
  Store16(span, 2, accept.crqsize);
  return bytes;
}

bool DecodeConnectReject(absl::Span<const std::byte> private_data,
                         ConnectReject* out) {
  *out = ConnectReject();
  if (private_data.size() < kConnectRejectBytes) return false;
  out->record_format = Load16(private_data, 0);
  out->reason = static_cast<RejectReason>(Load16(private_data, 2));
  return true;
}

std::array<std::byte, kConnectRejectBytes> EncodeConnectReject(
    const ConnectReject& reject) {
  std::array<std::byte, kConnectRejectBytes> bytes{};
  const auto span = absl::MakeSpan(bytes);
  Store16(span, 0, reject.record_format);
  Store16(span, 2, static_cast<uint16_t>(reject.reason));
  return bytes;
}

}  // namespace sluice::nvme
