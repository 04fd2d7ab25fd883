#include "target/core_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::target {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr PollMode kHybrid = PollMode::kHybrid;

TEST(CoreAdvice, NothingToSayWhereAllIsWell) {
  EXPECT_THAT(CoreAdvice({}, {8, ""}, kHybrid, 0), IsEmpty());
  EXPECT_THAT(CoreAdvice({2, 3}, {8, ""}, kHybrid, 0), IsEmpty());
  EXPECT_THAT(CoreAdvice({2, 3}, {8, "2-3"}, PollMode::kPoll, 0), IsEmpty());
  EXPECT_THAT(CoreAdvice({0}, {1, ""}, kHybrid, 0), IsEmpty());
}

TEST(CoreAdvice, WarnsOfProcessorZero) {
  EXPECT_THAT(CoreAdvice({0, 1}, {8, ""}, kHybrid, 0),
              ElementsAre(HasSubstr("processor 0")));
}

TEST(CoreAdvice, KnowsIsolatedProcessors) {
  EXPECT_THAT(CoreAdvice({1}, {8, "2-3,7"}, kHybrid, 0),
              ElementsAre(HasSubstr("2-3,7 are isolated")));
  EXPECT_THAT(CoreAdvice({}, {8, "7"}, kHybrid, 0),
              ElementsAre(HasSubstr("no reactor runs there")));
  EXPECT_THAT(CoreAdvice({1, 3}, {8, "2-3"}, kHybrid, 0),
              ElementsAre(HasSubstr("some do not")));
  EXPECT_THAT(CoreAdvice({1}, {8, "x,-"}, kHybrid, 0), IsEmpty());
}

TEST(CoreAdvice, WarnsOfPollingThatStarvesTheRest) {
  EXPECT_THAT(CoreAdvice({1, 2}, {2, ""}, PollMode::kPoll, 0),
              ElementsAre(HasSubstr("all 2 processors")));
  EXPECT_THAT(CoreAdvice({1}, {8, ""}, PollMode::kPoll, 50),
              ElementsAre(HasSubstr("real-time")));
  EXPECT_THAT(CoreAdvice({1}, {8, ""}, kHybrid, 50), IsEmpty());
}

TEST(CoreAdvice, ReadsThisMachine) { EXPECT_GE(ReadCoreFacts().cpus, 1); }

}  // namespace
}  // namespace sluice::target
