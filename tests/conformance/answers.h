// Answers as text, so that what a target said, what the specification says and
// what differences.h lists compare as strings: "0x000", "0x00C|DNR", "closed",
// "rejected 4".
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tests/conformance/raw_connection.h"

namespace sluice::conformance {

// Code and DNR. MORE and CRD are left out: a target may set them anywhere.
std::string Text(nvme::Status status);

// "closed": the connection ended; "no answer"; "odd response": not 16 bytes.
std::string Text(const absl::Status& status);
std::string Text(const absl::StatusOr<RawResponse>& response);

// With 182h also the field: "0x182|DNR at 44/SQE", "… at 256/data".
std::string ConnectText(const absl::StatusOr<RawResponse>& response);

}  // namespace sluice::conformance
