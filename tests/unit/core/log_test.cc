#include "core/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/clock.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/core/news.h"

namespace sluice {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// What the logger writes while it lives.
class Capture {
 public:
  Capture() { testing::internal::CaptureStderr(); }
  std::string Text() { return testing::internal::GetCapturedStderr(); }
};

TEST(Log, WritesAPhraseThenKeys) {
  Capture capture;

  SLUICE_LOG(kInfo) << "queue up" << KV("qid", 3) << KV("host", "nqn.x");

  const std::string text = capture.Text();
  EXPECT_THAT(text, EndsWith("queue up qid=3 host=nqn.x\n"));
  EXPECT_THAT(text, HasSubstr(" info "));
}

int Evaluate(int* times) { return ++*times; }

TEST(Log, WhatIsOffIsNotEvaluated) {
  Capture capture;
  int times = 0;

  SLUICE_LOG(kDebug) << "not written" << KV("times", Evaluate(&times));

  EXPECT_EQ(capture.Text(), "");
  EXPECT_EQ(times, 0);
}

TEST(Log, LevelsAreASwitch) {
  SetLogLevel(LogLevel::kError);
  EXPECT_FALSE(LogEnabled(LogLevel::kWarning));
  EXPECT_TRUE(LogEnabled(LogLevel::kError));
  SetLogLevel(LogLevel::kDebug);
  EXPECT_TRUE(LogEnabled(LogLevel::kDebug));
  SetLogLevel(LogLevel::kOff);
  EXPECT_FALSE(LogEnabled(LogLevel::kError));
  SetLogLevel(LogLevel::kInfo);
}

TEST(Log, StandsInAnIfWithoutBraces) {
  Capture capture;

  for (const bool yes : {true, false}) {
    if (yes) {
      SLUICE_LOG(kInfo) << "then";
    } else
      SLUICE_LOG(kInfo) << "else";
  }

  const std::string text = capture.Text();
  EXPECT_THAT(text, HasSubstr("then\n"));
  EXPECT_THAT(text, EndsWith("else\n"));
}

// A peer's name goes into the log: one line stays one line.
TEST(Log, ValuesCannotBreakTheLine) {
  Capture capture;
  const std::string hostile = "a\nb\r\x1b[2Jc{}%s";

  SLUICE_LOG(kWarning) << "bad name" << KV("name", hostile);

  const std::string text = capture.Text();
  EXPECT_THAT(text, EndsWith("name=a?b??[2Jc{}%s\n"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

// The safety poll's warning comes from the data path.
TEST(Log, AShortLineTakesNoMemory) {
  const std::string device = "rxe0";
  Capture capture;
  SLUICE_LOG(kInfo) << "the first line sets up the logger";
  const uint64_t before = news;

  SLUICE_LOG(kWarning) << "completions without a notification were found by "
                          "the safety poll"
                       << KV("device", device) << KV("count", 1'000'000);

  EXPECT_EQ(news, before);
  EXPECT_THAT(capture.Text(), EndsWith(" device=rxe0 count=1000000\n"));
}

TEST(Log, ALongLineIsWhole) {
  for (const size_t length : {400u, 500u, 505u, 512u, 513u, 5000u}) {
    Capture capture;
    const std::string name(length, 'n');

    SLUICE_LOG(kWarning) << "long" << KV("name", name) << KV("qid", 3) << "\n";

    EXPECT_THAT(capture.Text(), EndsWith("long name=" + name + " qid=3?\n"));
  }
}

TEST(Log, ParsesLevels) {
  EXPECT_EQ(*ParseLogLevel("debug"), LogLevel::kDebug);
  EXPECT_EQ(*ParseLogLevel("info"), LogLevel::kInfo);
  EXPECT_EQ(*ParseLogLevel("warning"), LogLevel::kWarning);
  EXPECT_EQ(*ParseLogLevel("error"), LogLevel::kError);
  EXPECT_EQ(*ParseLogLevel("off"), LogLevel::kOff);
  EXPECT_THAT(ParseLogLevel("loud"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("loud")));
}

TEST(LogLimiter, LetsOneLineASecondThrough) {
  LogLimiter limiter;
  uint64_t left_out = 99;
  int64_t now = 5 * kNanosPerSecond;

  EXPECT_TRUE(limiter.Allow(now, &left_out));
  EXPECT_EQ(left_out, 0u);
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(limiter.Allow(++now, &left_out));
  now += kNanosPerSecond;
  EXPECT_TRUE(limiter.Allow(now, &left_out));
  EXPECT_EQ(left_out, 7u);
}

}  // namespace
}  // namespace sluice
