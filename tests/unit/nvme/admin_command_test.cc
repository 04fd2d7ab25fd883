#include "nvme/admin_command.h"

#include <gtest/gtest.h>

#include "nvme/aen.h"

namespace sluice::nvme {
namespace {

TEST(IdentifyCommand, RoundTrips) {
  Sqe sqe;
  EncodeIdentify({.cns = 0x12,
                  .cntid = 0x3456,
                  .specific_id = 0x789A,
                  .csi = 0x02,
                  .uuid_index = 0x7F},
                 &sqe);
  EXPECT_EQ(sqe.opcode, 0x06);
  EXPECT_EQ(sqe.cdw10, 0x34560012u);
  EXPECT_EQ(sqe.cdw11, 0x0200789Au);
  EXPECT_EQ(sqe.cdw14, 0x7Fu);

  const IdentifyCommand command = DecodeIdentify(sqe);
  EXPECT_EQ(command.cns, 0x12);
  EXPECT_EQ(command.cntid, 0x3456);
  EXPECT_EQ(command.specific_id, 0x789A);
  EXPECT_EQ(command.csi, 2);
  EXPECT_EQ(command.uuid_index, 0x7F);
}

TEST(GetLogPage, PutsEachFieldInItsBits) {
  Sqe sqe;
  EncodeGetLogPage({.lid = 0x70,
                    .lsp = 0x03,
                    .retain_event = true,
                    .lsi = 0x1122,
                    .length_bytes = uint64_t{0x00030005} * 4,
                    .offset_bytes = 0x0000000100000400,
                    .csi = 1,
                    .uuid_index = 5},
                   &sqe);

  EXPECT_EQ(sqe.opcode, 0x02);
  EXPECT_EQ(sqe.cdw10, 0x00048370u);
  EXPECT_EQ(sqe.cdw11, 0x11220003u);
  EXPECT_EQ(sqe.cdw12, 0x00000400u);
  EXPECT_EQ(sqe.cdw13, 0x00000001u);
  EXPECT_EQ(sqe.cdw14, 0x01000005u);
}

TEST(GetLogPage, CountsBytesWithoutOverflow) {
  Sqe sqe;
  sqe.cdw10 = 0xFFFF0000;
  sqe.cdw11 = 0x0000FFFF;
  GetLogPageCommand command;

  ASSERT_EQ(DecodeGetLogPage(sqe, &command), kSuccess);

  EXPECT_EQ(command.length_bytes, uint64_t{1} << 34);
  Sqe again;
  EncodeGetLogPage(command, &again);
  EXPECT_EQ(again.cdw10, sqe.cdw10);
  EXPECT_EQ(again.cdw11, sqe.cdw11);
}

TEST(GetLogPage, ReadsTwentyBytes) {
  Sqe sqe;
  EncodeGetLogPage({.lid = 0x70, .length_bytes = 20}, &sqe);
  GetLogPageCommand command;

  ASSERT_EQ(DecodeGetLogPage(sqe, &command), kSuccess);

  EXPECT_EQ(command.length_bytes, 20u);
  EXPECT_FALSE(command.retain_event);
}

TEST(GetLogPage, RefusesUnalignedAndIndexOffsets) {
  for (const uint64_t offset : {1u, 2u, 3u, 1025u}) {
    Sqe sqe;
    EncodeGetLogPage({.lid = 0x70, .offset_bytes = offset}, &sqe);
    GetLogPageCommand command;
    EXPECT_EQ(DecodeGetLogPage(sqe, &command), kInvalidField.WithDnr());
    EXPECT_EQ(command.offset_bytes, offset);
  }
  Sqe sqe;
  EncodeGetLogPage({.lid = 0x70, .index_offset = true}, &sqe);
  GetLogPageCommand command;
  EXPECT_EQ(DecodeGetLogPage(sqe, &command), kInvalidField.WithDnr());
}

TEST(Features, RoundTrip) {
  Sqe sqe;
  EncodeSetFeatures({.fid = 0x0B, .save = true, .cdw11 = 0x80000900}, &sqe);
  EXPECT_EQ(sqe.opcode, 0x09);
  EXPECT_EQ(sqe.cdw10, 0x8000000Bu);
  EXPECT_TRUE(DecodeSetFeatures(sqe).save);
  EXPECT_EQ(DecodeSetFeatures(sqe).fid, 0x0B);
  EXPECT_EQ(DecodeSetFeatures(sqe).cdw11, 0x80000900u);

  EncodeGetFeatures({.fid = 0x0F, .select = 3}, &sqe);
  EXPECT_EQ(sqe.opcode, 0x0A);
  EXPECT_EQ(sqe.cdw10, 0x0000030Fu);
  EXPECT_EQ(DecodeGetFeatures(sqe).fid, 0x0F);
  EXPECT_EQ(DecodeGetFeatures(sqe).select, 3);
}

TEST(QueueCounts, AreTrueNumbers) {
  QueueCounts counts;
  ASSERT_EQ(DecodeQueueCounts(0x00030007, &counts), kSuccess);
  EXPECT_EQ(counts.submission, 8u);
  EXPECT_EQ(counts.completion, 4u);
  EXPECT_EQ(EncodeQueueCounts(counts), 0x00030007u);

  EXPECT_EQ(DecodeQueueCounts(0x0003FFFF, &counts), kInvalidField.WithDnr());
  EXPECT_EQ(DecodeQueueCounts(0xFFFF0003, &counts), kInvalidField.WithDnr());
}

TEST(Abort, RoundTrips) {
  Sqe sqe;
  EncodeAbort({.sqid = 3, .cid = 0xF002}, &sqe);
  EXPECT_EQ(sqe.opcode, 0x08);
  EXPECT_EQ(sqe.cdw10, 0xF0020003u);
  EXPECT_EQ(DecodeAbort(sqe).sqid, 3);
  EXPECT_EQ(DecodeAbort(sqe).cid, 0xF002);
}

TEST(AsyncEvent, RoundTrips) {
  EXPECT_EQ(AsyncEvent::FromDw0(0x0070F002), kDiscoveryLogChanged);
  EXPECT_EQ(AsyncEvent::FromDw0(0x00800006), kReservationLogAvailable);
}

}  // namespace
}  // namespace sluice::nvme
