#include "tests/support/status_matchers.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(StatusMatchers, MatchStatusAndStatusOr) {
  const absl::Status error = absl::OutOfRangeError("nlb=9");
  const absl::StatusOr<int> value = 5;
  const absl::StatusOr<int> no_value = error;

  EXPECT_THAT(absl::OkStatus(), IsOk());
  EXPECT_THAT(error, Not(IsOk()));
  EXPECT_THAT(value, IsOk());
  EXPECT_THAT(no_value, StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(error, StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("nlb")));
  EXPECT_THAT(error, Not(StatusIs(absl::StatusCode::kInternal)));
  EXPECT_THAT(error,
              Not(StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("slba"))));
}

}  // namespace
}  // namespace sluice
