#include "nvme/io_command.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::nvme {
namespace {

TEST(BlockCommand, PutsEachFieldInItsBits) {
  Sqe sqe;

  EncodeBlock(IoOpcode::kWriteZeroes,
              {.slba = 0x1122334455667788,
               .nlb = 0x0102,
               .fua = true,
               .prchk = 5,
               .deallocate = true,
               .directive_type = 0xA,
               .dataset_hints = 0x5C,
               .directive_specific = 0xBEEF},
              &sqe);

  EXPECT_EQ(sqe.opcode, 0x08);
  EXPECT_EQ(sqe.cdw10, 0x55667788u);
  EXPECT_EQ(sqe.cdw11, 0x11223344u);
  EXPECT_EQ(sqe.cdw12, 0x56A00102u);
  EXPECT_EQ(sqe.cdw13, 0xBEEF005Cu);
}

TEST(BlockCommand, RoundTripsEveryFlag) {
  Sqe sqe;
  sqe.cdw10 = 1;
  sqe.cdw12 = 0xFFF0FFFF;
  sqe.cdw13 = 0xFFFF00FF;

  const BlockCommand command = DecodeBlock(sqe);
  Sqe again;
  EncodeBlock(IoOpcode::kRead, command, &again);

  EXPECT_EQ(command.slba, 1u);
  EXPECT_EQ(command.block_count(), 65536u);
  EXPECT_TRUE(command.limited_retry);
  EXPECT_TRUE(command.fua);
  EXPECT_TRUE(command.pract);
  EXPECT_TRUE(command.storage_tag_check);
  EXPECT_EQ(again.cdw12, sqe.cdw12);
  EXPECT_EQ(again.cdw13, sqe.cdw13);
}

TEST(BlockCommand, CountsFromOne) {
  BlockCommand command;
  EXPECT_EQ(command.block_count(), 1u);
  command.set_block_count(8);
  EXPECT_EQ(command.nlb, 7);
  command.set_block_count(65536);
  EXPECT_EQ(command.nlb, 0xFFFF);
}

struct RangeCase {
  uint64_t slba;
  uint64_t block_count;
  uint64_t namespace_blocks;
  bool inside;
};

TEST(CheckRange, DoesNotOverflow) {
  const RangeCase cases[] = {
      {0, 1, 1, true},
      {0, 2, 1, false},
      {1, 1, 1, false},
      {99, 1, 100, true},
      {99, 2, 100, false},
      {0, 65536, 65536, true},
      {100, 0, 100, true},
      {101, 0, 100, false},
      {0, 1, 0, false},
      {UINT64_MAX, 1, 100, false},
      {UINT64_MAX, 1, UINT64_MAX, false},
      {UINT64_MAX - 1, 1, UINT64_MAX, true},
      {1, UINT64_MAX, 100, false},
      {UINT64_MAX, UINT64_MAX, UINT64_MAX, false},
  };
  for (const RangeCase& c : cases) {
    EXPECT_EQ(CheckRange(c.slba, c.block_count, c.namespace_blocks),
              c.inside ? kSuccess : kLbaOutOfRange.WithDnr())
        << c.slba << "+" << c.block_count << " of " << c.namespace_blocks;
  }
}

struct TransferCase {
  uint32_t block_count;
  uint32_t sgl_bytes;
  Status expected;
};

TEST(CheckTransfer, ComparesWithSglAndMdts) {
  const TransferCase cases[] = {
      {1, 4096, kSuccess},
      {1, 8192, kSuccess},
      {32, 131072, kSuccess},
      {1, 4095, kDataSglLengthInvalid.WithDnr()},
      {1, 0, kDataSglLengthInvalid.WithDnr()},
      {33, UINT32_MAX, kInvalidField.WithDnr()},
      {65536, UINT32_MAX, kInvalidField.WithDnr()},
  };
  for (const TransferCase& c : cases) {
    EXPECT_EQ(CheckTransfer(c.block_count, 4096, c.sgl_bytes, 131072),
              c.expected)
        << c.block_count << " blocks, " << c.sgl_bytes << " bytes";
  }
  // 65536 blocks of 64 KiB are 2^32 bytes.
  EXPECT_EQ(CheckTransfer(65536, 65536, 0, UINT32_MAX),
            kInvalidField.WithDnr());
}

TEST(DsmCommand, RoundTrips) {
  Sqe sqe;
  EncodeDsm({.nr = 255, .deallocate = true}, &sqe);
  EXPECT_EQ(sqe.opcode, 0x09);
  EXPECT_EQ(sqe.cdw10, 255u);
  EXPECT_EQ(sqe.cdw11, 4u);

  const DsmCommand command = DecodeDsm(sqe);
  EXPECT_EQ(command.range_count(), 256u);
  EXPECT_EQ(command.data_bytes(), 4096u);
  EXPECT_TRUE(command.deallocate);
  EXPECT_FALSE(command.hint_read);
  EXPECT_FALSE(command.hint_write);
}

TEST(DsmRange, IsSixteenBytes) {
  std::vector<std::byte> data(32);

  WriteDsmRange({.context_attributes = 0x0A0B0C0D,
                 .block_count = 8,
                 .slba = 0x0102030405060708},
                1, absl::MakeSpan(data));

  EXPECT_EQ(data[15], std::byte{0});
  EXPECT_EQ(data[16], std::byte{0x0D});
  EXPECT_EQ(data[20], std::byte{8});
  EXPECT_EQ(data[24], std::byte{8});
  EXPECT_EQ(data[31], std::byte{1});
  const DsmRange range = ReadDsmRange(data, 1);
  EXPECT_EQ(range.context_attributes, 0x0A0B0C0Du);
  EXPECT_EQ(range.block_count, 8u);
  EXPECT_EQ(range.slba, 0x0102030405060708u);
}

}  // namespace
}  // namespace sluice::nvme
