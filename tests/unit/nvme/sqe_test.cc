#include "nvme/sqe.h"

#include <gtest/gtest.h>

#include <array>

namespace sluice::nvme {
namespace {

TEST(Sqe, DefaultsToAnSglCommandWithoutData) {
  std::array<std::byte, kSqeBytes> bytes;

  WriteSqe(Sqe(), absl::MakeSpan(bytes));

  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool flags_or_sgl_id = i == 1 || i == 39;
    EXPECT_EQ(bytes[i], flags_or_sgl_id ? std::byte{0x40} : std::byte{0}) << i;
  }
}

TEST(Sqe, ReadsFieldsAtTheirOffsets) {
  std::array<std::byte, kSqeBytes> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i);

  const Sqe sqe = ReadSqe(bytes);

  EXPECT_EQ(sqe.opcode, 0x00);
  EXPECT_EQ(sqe.flags, 0x01);
  EXPECT_EQ(sqe.cid, 0x0302);
  EXPECT_EQ(sqe.nsid, 0x07060504u);
  EXPECT_EQ(sqe.fctype(), 0x04);
  EXPECT_EQ(sqe.mptr, 0x1716151413121110u);
  EXPECT_EQ(sqe.sgl[0], std::byte{24});
  EXPECT_EQ(sqe.cdw10_11(), 0x2F2E2D2C2B2A2928u);
  EXPECT_EQ(sqe.cdw12_13(), 0x3736353433323130u);
  EXPECT_EQ(sqe.cdw15, 0x3F3E3D3Cu);
}

TEST(Sqe, TakesTheDirectionOfFabricsFromFctype) {
  Sqe sqe;
  sqe.opcode = static_cast<uint8_t>(IoOpcode::kRead);
  EXPECT_EQ(sqe.direction(), Direction::kControllerToHost);
  sqe.opcode = static_cast<uint8_t>(IoOpcode::kWrite);
  EXPECT_EQ(sqe.direction(), Direction::kHostToController);
  sqe.opcode = kFabricsOpcode;
  sqe.set_fctype(static_cast<uint8_t>(FabricsType::kConnect));
  EXPECT_EQ(sqe.direction(), Direction::kHostToController);
  sqe.set_fctype(static_cast<uint8_t>(FabricsType::kPropertyGet));
  EXPECT_EQ(sqe.direction(), Direction::kNone);
}

struct FlagsCase {
  uint8_t flags;
  bool fused_served;
  Status expected;
};

TEST(CheckFlags, RefusesOtherPsdtAndUnservedFuse) {
  const FlagsCase cases[] = {
      {0x40, false, kSuccess},
      {0x7C, false, kSuccess},  // reserved bits are not looked at
      {0x00, false, kInvalidField.WithDnr()},
      {0x80, false, kInvalidField.WithDnr()},
      {0xC0, true, kInvalidField.WithDnr()},
      {0x41, false, kInvalidField.WithDnr()},
      {0x42, false, kInvalidField.WithDnr()},
      {0x41, true, kSuccess},
      {0x42, true, kSuccess},
      {0x43, true, kInvalidField.WithDnr()},
  };
  for (const FlagsCase& c : cases) {
    Sqe sqe;
    sqe.flags = c.flags;
    EXPECT_EQ(CheckFlags(sqe, c.fused_served), c.expected) << int{c.flags};
  }
}

TEST(Sqe, SetsFuseAndPsdtApart) {
  Sqe sqe;

  sqe.set_fuse(Fuse::kSecond);
  EXPECT_EQ(sqe.flags, 0x42);
  sqe.set_psdt(2);
  EXPECT_EQ(sqe.flags, 0x82);
  EXPECT_EQ(sqe.fuse(), Fuse::kSecond);
  EXPECT_EQ(sqe.psdt(), 2);
}

TEST(Cqe, IsSixteenGoldenBytes) {
  const Cqe cqe{.result = 0x1122334455667788,
                .sqhd = 0x0102,
                .sqid = 0x0304,
                .cid = 0xF01F,
                .status_wire = kInvalidField.WithDnr().wire()};
  std::array<std::byte, kCqeBytes> bytes;

  WriteCqe(cqe, absl::MakeSpan(bytes));

  const uint8_t golden[] = {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
                            0x02, 0x01, 0x04, 0x03, 0x1F, 0xF0, 0x04, 0x80};
  for (size_t i = 0; i < kCqeBytes; ++i) {
    EXPECT_EQ(bytes[i], std::byte{golden[i]}) << i;
  }
  EXPECT_EQ(ReadCqe(bytes).cid, 0xF01F);
  EXPECT_EQ(ReadCqe(bytes).status(), kInvalidField.WithDnr());
  EXPECT_EQ(ReadCqe(bytes).dw0(), 0x55667788u);
}

}  // namespace
}  // namespace sluice::nvme
