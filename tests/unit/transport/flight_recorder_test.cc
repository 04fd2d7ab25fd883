#include "transport/flight_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "transport/wr_tag.h"

namespace sluice::transport {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

FlightRecord RecordOf(uint16_t slot) {
  const WrTag tag{.kind = WrKind::kRead, .slot = slot, .qp_index = 3};
  return FlightRecord{.time_nanos = 1'000'000'007,
                      .wr_id = tag.Pack(),
                      .qp_number = 0x11,
                      .byte_count = 512,
                      .status = 5};
}

int64_t Lines(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

TEST(FlightRecorder, EmptyDumpsNothing) {
  const auto recorder = std::make_unique<FlightRecorder>();

  EXPECT_EQ(recorder->Dump(16), "");
  EXPECT_EQ(recorder->recorded(), 0U);
}

TEST(FlightRecorder, SaysWhatCameBackAndWhen) {
  const auto recorder = std::make_unique<FlightRecorder>();

  recorder->Record(RecordOf(9));

  const std::string text = recorder->Dump(16);
  EXPECT_EQ(Lines(text), 1);
  for (const char* part : {"t=1.000000007", "qp=0x11", "read", "slot=9",
                           "qp_slot=3/0", "status=5", "bytes=512"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(FlightRecorder, DumpsTheLastOldestFirst) {
  const auto recorder = std::make_unique<FlightRecorder>();
  for (uint16_t slot = 0; slot < 10; ++slot) recorder->Record(RecordOf(slot));

  const std::string text = recorder->Dump(2);

  EXPECT_EQ(Lines(text), 2);
  EXPECT_LT(text.find(" slot=8"), text.find(" slot=9"));
  EXPECT_THAT(text, Not(HasSubstr(" slot=7")));
}

TEST(FlightRecorder, OverwritesTheOldest) {
  const auto recorder = std::make_unique<FlightRecorder>();
  for (uint32_t i = 0; i <= kFlightRecords; ++i) {
    recorder->Record(RecordOf(static_cast<uint16_t>(i)));
  }

  const std::string text = recorder->Dump(UINT32_MAX);

  EXPECT_EQ(recorder->recorded(), kFlightRecords + 1);
  EXPECT_EQ(Lines(text), kFlightRecords);
  EXPECT_THAT(text, Not(HasSubstr(" slot=0 ")));
  EXPECT_THAT(text, HasSubstr(" slot=8192 "));
}

FlightRecord Of(WrKind kind, uint16_t slot, uint16_t status, int64_t time,
                uint32_t qp_number = 0x11) {
  const WrTag tag{.kind = kind, .slot = slot, .qp_index = 3};
  return FlightRecord{.time_nanos = time,
                      .wr_id = tag.Pack(),
                      .qp_number = qp_number,
                      .status = status};
}
constexpr uint16_t kPosted = FlightRecord::kPosted;

TEST(FlightRecorder, SaysWhatNeverCameBackAndWhatFollowed) {
  const auto recorder = std::make_unique<FlightRecorder>();
  recorder->Record(Of(WrKind::kReceive, 1, kPosted, 10));
  recorder->Record(Of(WrKind::kRead, 2, kPosted, 11));
  recorder->Record(Of(WrKind::kRead, 7, kPosted, 12, /*qp_number=*/0x22));
  recorder->Record(Of(WrKind::kReceive, 1, 0, 13));

  const std::string text = recorder->DumpMissing(0x11, 4, 8);

  EXPECT_EQ(Lines(text), 2);
  EXPECT_THAT(text, HasSubstr("never came back: t=0.000000011"));
  EXPECT_THAT(text, HasSubstr("posted read slot=2"));
  EXPECT_THAT(text, HasSubstr("then t=0.000000013"));
  EXPECT_THAT(text, Not(HasSubstr("qp=0x22")));
}

TEST(FlightRecorder, ASendBehindItVouchesForOneWithoutACompletion) {
  const auto recorder = std::make_unique<FlightRecorder>();
  recorder->Record(Of(WrKind::kWrite, 1, kPosted, 10));
  recorder->Record(Of(WrKind::kSend, 2, kPosted, 11));
  EXPECT_EQ(Lines(recorder->DumpMissing(0x11, 4, 0)), 2);

  recorder->Record(Of(WrKind::kSend, 2, 0, 12));
  EXPECT_EQ(recorder->DumpMissing(0x11, 4, 0), "");
}

TEST(FlightRecorder, AReceiveVouchesForNoOther) {
  const auto recorder = std::make_unique<FlightRecorder>();
  recorder->Record(Of(WrKind::kReceive, 1, kPosted, 10));
  recorder->Record(Of(WrKind::kReceive, 2, kPosted, 11));
  recorder->Record(Of(WrKind::kReceive, 2, 0, 12));

  EXPECT_THAT(recorder->DumpMissing(0x11, 4, 0), HasSubstr("slot=1"));
}

TEST(FlightRecorder, OverdueAreSendsOfAnyQueuePairPostedBeforeThen) {
  const auto recorder = std::make_unique<FlightRecorder>();
  recorder->Record(Of(WrKind::kReceive, 1, kPosted, 10));
  recorder->Record(Of(WrKind::kSend, 2, kPosted, 20, 0x22));
  recorder->Record(Of(WrKind::kSend, 3, kPosted, 30, 0x33));

  const std::string text = recorder->DumpMissingSends(30, 4, 0);

  EXPECT_EQ(Lines(text), 1);
  EXPECT_THAT(text, HasSubstr("qp=0x22"));
}

TEST(FlightRecorder, TakesAnyKind) {
  const auto recorder = std::make_unique<FlightRecorder>();

  recorder->Record(FlightRecord{.wr_id = 0xF});

  EXPECT_THAT(recorder->Dump(1), HasSubstr("unknown"));
}

}  // namespace
}  // namespace sluice::transport
