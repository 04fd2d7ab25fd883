#include "nvme/log_page.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/unit/nvme/bytes_of.h"

namespace sluice::nvme {
namespace {

struct SliceCase {
  uint64_t offset;
  size_t size;
  size_t copied;
  Status expected;
};

TEST(CopyLogSlice, FillsWithZeroesBehindTheEnd) {
  const std::vector<std::byte> log(100, std::byte{1});
  const SliceCase cases[] = {
      {0, 20, 20, kSuccess},   {0, 100, 100, kSuccess},
      {0, 120, 100, kSuccess}, {96, 8, 4, kSuccess},
      {100, 8, 0, kSuccess},   {104, 8, 0, kInvalidField.WithDnr()},
      {50, 0, 0, kSuccess},    {UINT64_MAX, 8, 0, kInvalidField.WithDnr()},
  };
  for (const SliceCase& c : cases) {
    std::vector<std::byte> out(c.size, std::byte{0xFF});
    EXPECT_EQ(CopyLogSlice(log, c.offset, absl::MakeSpan(out)), c.expected);
    for (size_t i = 0; i < out.size(); ++i) {
      EXPECT_EQ(out[i], std::byte{i < c.copied}) << c.offset << " " << i;
    }
  }
}

TEST(ErrorEntry, PutsFieldsAtTheirOffsets) {
  nvme_error_log_page page;

  BuildErrorEntry({.count = 9,
                   .sqid = 2,
                   .cid = 0xF001,
                   .status = kInvalidField.WithDnr().WithMore(),
                   .location = 1,
                   .lba = 0x1122334455,
                   .nsid = 6},
                  &page);

  const BytesOf bytes(page);
  EXPECT_EQ(bytes.U64(0), 9u);
  EXPECT_EQ(bytes.U16(8), 2);
  EXPECT_EQ(bytes.U16(10), 0xF001);
  EXPECT_EQ(bytes.U16(12), 0xC004);
  EXPECT_EQ(bytes.U16(14), 1);
  EXPECT_EQ(bytes.U64(16), 0x1122334455u);
  EXPECT_EQ(bytes.U32(24), 6u);
  EXPECT_EQ(bytes.U8(29), 1);
  EXPECT_TRUE(bytes.Zero(30, 64));
}

TEST(SmartLog, PutsFieldsAtTheirOffsets) {
  nvme_smart_log log;

  BuildSmartLog({.critical_warning = 8,
                 .temperature_kelvin = 0x0132,
                 .used_percent = 5,
                 .read_bytes = 1,
                 .written_bytes = 512000 * 3,
                 .read_commands = 4,
                 .write_commands = 5,
                 .busy_minutes = 6,
                 .power_cycles = 7,
                 .power_on_hours = 8,
                 .unsafe_shutdowns = 9,
                 .media_errors = 10,
                 .error_log_entries = 11},
                &log);

  const BytesOf bytes(log);
  EXPECT_EQ(bytes.U8(0), 8);
  EXPECT_EQ(bytes.U16(1), 0x0132);
  EXPECT_EQ(bytes.U8(3), 100);
  EXPECT_EQ(bytes.U8(4), 10);
  EXPECT_EQ(bytes.U8(5), 5);
  EXPECT_EQ(bytes.U64(32), 1u);
  for (uint64_t i = 3; i <= 11; ++i) {
    EXPECT_EQ(bytes.U64(48 + (i - 3) * 16), i);
    EXPECT_EQ(bytes.U64(56 + (i - 3) * 16), 0u);
  }
  EXPECT_TRUE(bytes.Zero(192, 512));
}

TEST(SmartLog, CountsTheLargestNumber) {
  nvme_smart_log log;

  BuildSmartLog({.read_bytes = UINT64_MAX}, &log);

  EXPECT_EQ(BytesOf(log).U64(32), UINT64_MAX / 512000 + 1);
}

TEST(FirmwareSlot, NamesTheActiveRevision) {
  nvme_firmware_slot slot;

  BuildFirmwareSlot("0.1", &slot);

  const BytesOf bytes(slot);
  EXPECT_EQ(bytes.U8(0), 1);
  EXPECT_EQ(bytes.Text(8, 8), "0.1     ");
  EXPECT_TRUE(bytes.Zero(16, 512));
}

TEST(ChangedNamespaces, OverflowsTo1024AndOne) {
  std::vector<uint32_t> nsids(1024);
  std::iota(nsids.begin(), nsids.end(), 1);
  nvme_ns_list list;

  BuildChangedNamespaces(nsids, &list);
  EXPECT_EQ(BytesOf(list).U32(0), 1u);
  EXPECT_EQ(BytesOf(list).U32(4092), 1024u);

  nsids.push_back(1025);
  BuildChangedNamespaces(nsids, &list);
  EXPECT_EQ(BytesOf(list).U32(0), 0xFFFFFFFFu);
  EXPECT_TRUE(BytesOf(list).Zero(4, 4096));
}

TEST(EffectsLog, MarksWhatIsServed) {
  nvme_cmd_effects_log log;

  BuildEffectsLog({AdminOpcode::kIdentify, AdminOpcode::kKeepAlive},
                  {IoOpcode::kFlush, IoOpcode::kRead, IoOpcode::kWrite,
                   IoOpcode::kDatasetManagement},
                  &log);

  const BytesOf bytes(log);
  EXPECT_EQ(bytes.U32(0x06 * 4), 1u);
  EXPECT_EQ(bytes.U32(0x18 * 4), 1u);
  EXPECT_EQ(bytes.U32(0x02 * 4), 0u);
  EXPECT_EQ(bytes.U32(1024), 1u);
  EXPECT_EQ(bytes.U32(1024 + 4), 3u);
  EXPECT_EQ(bytes.U32(1024 + 8), 1u);
  EXPECT_EQ(bytes.U32(1024 + 36), 3u);
  EXPECT_TRUE(bytes.Zero(2048, 4096));
}

TEST(SupportedPages, MarksThePages) {
  nvme_supported_log_pages pages;

  BuildSupportedPages({LogId::kSmart, LogId::kDiscovery}, &pages);

  const BytesOf bytes(pages);
  EXPECT_EQ(bytes.U32(0), 0u);
  EXPECT_EQ(bytes.U32(2 * 4), 1u);
  EXPECT_EQ(bytes.U32(0x70 * 4), 1u);
}

}  // namespace
}  // namespace sluice::nvme
