#include "tests/conformance/answers.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nvme/connect.h"

namespace sluice::conformance {

std::string Text(nvme::Status status) {
  return absl::StrFormat("0x%03X%s", status.code(), status.dnr() ? "|DNR" : "");
}

std::string Text(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return "sent";
    case absl::StatusCode::kUnavailable:
      return "closed";
    case absl::StatusCode::kDeadlineExceeded:
      return "no answer";
    case absl::StatusCode::kDataLoss:
      return "odd response";
    default:
      return status.ToString();
  }
}

std::string Text(const absl::StatusOr<RawResponse>& response) {
  if (!response.ok()) return Text(response.status());
  return Text(response->status());
}

std::string ConnectText(const absl::StatusOr<RawResponse>& response) {
  std::string text = Text(response);
  if (!response.ok()) return text;
  if (!response->status().Is(nvme::kConnectInvalidParameters)) return text;
  const nvme::ConnectErrorLocation location =
      nvme::DecodeConnectError(response->cqe.dw0());
  absl::StrAppend(&text, " at ", location.offset_bytes,
                  location.in_data ? "/data" : "/SQE");
  return text;
}

}  // namespace sluice::conformance
