// Matchers for absl::Status and absl::StatusOr, which Debian's Abseil does not
// supply.
//
//   EXPECT_THAT(device.Open(), IsOk());
//   EXPECT_THAT(Decode(bytes), StatusIs(absl::StatusCode::kOutOfRange,
//                                       HasSubstr("nlb")));
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice {

inline const absl::Status& StatusOf(const absl::Status& status) {
  return status;
}

template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& status_or) {
  return status_or.status();
}

MATCHER(IsOk, negation ? "is an error" : "is OK") {
  const absl::Status& status = StatusOf(arg);
  if (!status.ok()) *result_listener << status;
  return status.ok();
}

MATCHER_P2(StatusIs, code, message_matcher,
           std::string(negation ? "does not have" : "has") + " the code " +
               absl::StatusCodeToString(code) + " and the message asked for") {
  const absl::Status& status = StatusOf(arg);
  *result_listener << status;
  return status.code() == code &&
         testing::ExplainMatchResult(
             message_matcher, std::string(status.message()), result_listener);
}

template <typename Code>
auto StatusIs(Code code) {
  return StatusIs(code, testing::_);
}

}  // namespace sluice
