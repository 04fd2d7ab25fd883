#include "nvme/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::nvme {
namespace {

struct WireCase {
  Status status;
  uint16_t wire;
};

// The examples of spec §2.3.
TEST(Status, EncodesTheWireForm) {
  const WireCase cases[] = {
      {kSuccess, 0x0000},
      {kInvalidField.WithDnr(), 0x8004},
      {kCommandSequenceError.WithDnr(), 0x8018},
      {kAerLimitExceeded.WithDnr(), 0x820A},
      {kConnectInvalidParameters.WithDnr(), 0x8304},
      {kCompareFailure, 0x050A},
      {kAnaTransition, 0x0606},
      {kInternalError.WithMore(), 0x400C},
      {kCommandInterrupted.WithCrd(3), 0x3042},
  };
  for (const WireCase& c : cases) {
    EXPECT_EQ(c.status.wire(), c.wire) << StatusName(c.status);
    EXPECT_EQ(Status::FromWire(c.wire), c.status) << StatusName(c.status);
  }
}

TEST(Status, DropsThePhaseBit) {
  const Status status = Status::FromWire(0x8005);

  EXPECT_EQ(status, kInvalidField.WithDnr());
  EXPECT_EQ(Status::FromWire(0x0001), kSuccess);
}

TEST(Status, KeepsEveryOtherBit) {
  const Status status = Status::FromWire(0xFFFE);

  EXPECT_EQ(status.wire(), 0xFFFE);
  EXPECT_EQ(status.code(), 0x7FF);
  EXPECT_TRUE(status.dnr());
  EXPECT_TRUE(status.more());
  EXPECT_EQ(status.crd(), 3);
  EXPECT_EQ(status.WithoutDnr().wire(), 0x7FFE);
  EXPECT_EQ(status.WithCrd(0).wire(), 0xCFFE);
}

TEST(Status, IsOkByItsCodeAlone) {
  EXPECT_TRUE(kSuccess.ok());
  EXPECT_TRUE(Status().ok());
  EXPECT_TRUE(kSuccess.WithMore().ok());
  EXPECT_FALSE(kInvalidOpcode.ok());
  EXPECT_FALSE(Status(0x100).ok());
}

TEST(Status, ComparesCodesWithIs) {
  EXPECT_TRUE(kInvalidField.WithDnr().Is(kInvalidField));
  EXPECT_NE(kInvalidField.WithDnr(), kInvalidField);
  EXPECT_FALSE(kInvalidField.Is(kInvalidOpcode));
}

TEST(StatusName, NamesCodes) {
  EXPECT_STREQ(StatusName(kSuccess), "success");
  EXPECT_STREQ(StatusName(kInvalidField.WithDnr()), "invalid field");
  EXPECT_STREQ(StatusName(kLbaOutOfRange), "LBA out of range");
  EXPECT_STREQ(StatusName(kConnectInvalidHost), "invalid host");
  EXPECT_STREQ(StatusName(Status(0x7FF)), "unknown status");
  EXPECT_THAT(StatusName(kConnectInvalidParameters),
              testing::HasSubstr("invalid parameters"));
}

}  // namespace
}  // namespace sluice::nvme
