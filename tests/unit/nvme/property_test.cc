#include "nvme/property.h"

#include <gtest/gtest.h>

namespace sluice::nvme {
namespace {

TEST(Capabilities, MatchTheExampleOfTheSpec) {
  EXPECT_EQ(EncodeCap(Capabilities()), 0x000000201E01007Fu);
}

struct CapCase {
  Capabilities capabilities;
  uint64_t cap;
};

TEST(Capabilities, PutEachFieldInItsBits) {
  const uint64_t base = 0x000000201E01007F;
  const CapCase cases[] = {
      {{.queue_depth_max = 1}, (base & ~uint64_t{0xFFFF})},
      {{.queue_depth_max = 65536}, base | 0xFFFF},
      {{.contiguous_queues = false}, base & ~(uint64_t{1} << 16)},
      {{.ams = 3}, base | uint64_t{3} << 17},
      {{.timeout_500ms = 255}, base | 0xFF000000},
      {{.dstrd = 15}, base | uint64_t{15} << 32},
      {{.subsystem_reset = true}, base | uint64_t{1} << 36},
      {{.css_nvm = false}, base & ~(uint64_t{1} << 37)},
      {{.css_csi = true}, base | uint64_t{1} << 43},
      {{.css_admin_only = true}, base | uint64_t{1} << 44},
      {{.mpsmin = 15}, base | uint64_t{15} << 48},
      {{.mpsmax = 4}, base | uint64_t{4} << 52},
      {{.ready_with_media = true}, base | uint64_t{1} << 59},
      {{.ready_without_media = true}, base | uint64_t{1} << 60},
  };
  for (const CapCase& c : cases) {
    EXPECT_EQ(EncodeCap(c.capabilities), c.cap);
    EXPECT_EQ(EncodeCap(DecodeCap(c.cap)), c.cap);
  }
}

// What Linux writes [spec §3.4].
TEST(ControllerConfiguration, ReadsWhatLinuxWrites) {
  const ControllerConfiguration off = DecodeCc(0x00460000);
  const ControllerConfiguration on = DecodeCc(0x00460061);
  const ControllerConfiguration shutdown = DecodeCc(0x00464001);

  EXPECT_FALSE(off.enabled);
  EXPECT_EQ(off.iosqes, 6);
  EXPECT_EQ(off.iocqes, 4);
  EXPECT_TRUE(on.enabled);
  EXPECT_EQ(on.css, 6);
  EXPECT_EQ(shutdown.shn, ShutdownNotification::kNormal);
  EXPECT_EQ(EncodeCc(shutdown), 0x00464001u);
  EXPECT_EQ(EncodeCc(DecodeCc(0x01FFFFF1)), 0x01FFFFF1u);
}

struct EnableCase {
  uint32_t cc;
  bool discovery;
  bool expected;
};

TEST(CanEnable, ChecksEveryField) {
  const Capabilities capabilities{.mpsmax = 2};
  const EnableCase cases[] = {
      {0x00460001, false, true},  {0x00460101, false, true},
      {0x00460181, false, false},  // MPS 3
      {0x00450001, false, false},  // IOSQES
      {0x00360001, false, false},  // IOCQES
      {0x00000001, true, true},   {0x00000001, false, false},
      {0x00460801, false, false},  // AMS
      {0x00460061, false, false},  // CSS 6
      {0x00460071, false, false},  // CSS 7
      {0x00460011, false, false},  // CSS 1
  };
  for (const EnableCase& c : cases) {
    EXPECT_EQ(CanEnable(DecodeCc(c.cc), capabilities, c.discovery), c.expected)
        << std::hex << c.cc;
  }
  EXPECT_TRUE(CanEnable(DecodeCc(0x00460061), {.css_csi = true}, false));
  EXPECT_TRUE(CanEnable(DecodeCc(0x00460071), {.css_admin_only = true}, false));
}

TEST(ControllerStatus, PutsEachFieldInItsBits) {
  EXPECT_EQ(EncodeCsts({}), 0u);
  EXPECT_EQ(EncodeCsts({.ready = true}), 0x01u);
  EXPECT_EQ(EncodeCsts({.fatal = true}), 0x02u);
  EXPECT_EQ(EncodeCsts({.shst = ShutdownStatus::kInProgress}), 0x04u);
  EXPECT_EQ(EncodeCsts({.shst = ShutdownStatus::kComplete}), 0x08u);
  EXPECT_EQ(EncodeCsts({.reset_occurred = true}), 0x10u);
  EXPECT_EQ(EncodeCsts({.processing_paused = true}), 0x20u);
  EXPECT_EQ(EncodeCsts(DecodeCsts(0x3B)), 0x3Bu);
}

TEST(PropertyBytes, KnowsTheProperties) {
  EXPECT_EQ(PropertyBytes(0x00), 8u);
  for (const uint32_t offset : {0x08u, 0x14u, 0x1Cu, 0x20u, 0x68u}) {
    EXPECT_EQ(PropertyBytes(offset), 4u) << offset;
  }
  for (const uint32_t offset : {0x04u, 0x0Cu, 0x15u, 0xFFFFFFFFu}) {
    EXPECT_EQ(PropertyBytes(offset), 0u) << offset;
  }
}

TEST(PropertyCommand, RoundTrips) {
  Sqe sqe;
  PropertyCommand command;

  EncodePropertyGet({.offset_bytes = 0, .length_bytes = 8}, &sqe);
  EXPECT_EQ(sqe.opcode, 0x7F);
  EXPECT_EQ(sqe.fctype(), 0x04);
  EXPECT_EQ(sqe.cdw10, 1u);
  ASSERT_EQ(DecodePropertyGet(sqe, &command), kSuccess);
  EXPECT_EQ(command.length_bytes, 8u);

  EncodePropertySet({.offset_bytes = 0x14, .value = 0x1122334455667788}, &sqe);
  EXPECT_EQ(sqe.fctype(), 0x00);
  EXPECT_EQ(sqe.cdw11, 0x14u);
  EXPECT_EQ(sqe.cdw12, 0x55667788u);
  EXPECT_EQ(sqe.cdw13, 0x11223344u);
  ASSERT_EQ(DecodePropertySet(sqe, &command), kSuccess);
  EXPECT_EQ(command.offset_bytes, 0x14u);
  EXPECT_EQ(command.value, 0x55667788u);
}

TEST(PropertyCommand, RefusesOtherSizes) {
  Sqe sqe;
  PropertyCommand command;

  EncodePropertyGet({.offset_bytes = 0, .length_bytes = 2}, &sqe);

  EXPECT_EQ(DecodePropertyGet(sqe, &command), kInvalidField.WithDnr());
  EXPECT_EQ(DecodePropertySet(sqe, &command), kInvalidField.WithDnr());
  sqe.cdw10 = 0xFFFFFFF8;  // reserved bits
  EXPECT_EQ(DecodePropertyGet(sqe, &command), kSuccess);
}

TEST(Crto, HoldsBothTimes) { EXPECT_EQ(EncodeCrto(30, 60), 0x003C001Eu); }

}  // namespace
}  // namespace sluice::nvme
