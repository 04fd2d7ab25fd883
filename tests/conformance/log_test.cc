// Get Log Page: every page, offsets, partial reads, and pages that are not
// there [spec §6.6].
#include <cstring>
#include <initializer_list>

#include "tests/conformance/conformance.h"
#include "tests/conformance/pattern.h"

namespace sluice::conformance {
namespace {

constexpr const char* kGood = "0x000";
constexpr const char* kField = "0x002|DNR";

class Log : public OneController {
 protected:
  std::string Get(uint8_t lid, uint32_t bytes, uint64_t offset = 0) {
    controller_->data().Fill(0xEE);
    return Text(controller_->GetLog({.lid = lid,
                                     .retain_event = true,
                                     .length_bytes = bytes,
                                     .offset_bytes = offset}));
  }
  Bytes Data(size_t bytes) {
    const auto data = controller_->data().bytes(0, bytes);
    return Bytes(data.begin(), data.end());
  }
};

TEST_F(Log, Mandatory) {
  Check("error", Get(0x01, 64), {kGood});
  Check("SMART", Get(0x02, 512), {kGood});
  Check("firmware", Get(0x03, 512), {kGood});
  Check("changed namespaces", Get(0x04, 4096), {kGood});
}

TEST_F(Log, Effects) {
  if ((limits().lpa & 2) == 0) GTEST_SKIP() << "LPA bit 1 is clear";
  ASSERT_EQ(Get(0x05, 4096), kGood);
  nvme_cmd_effects_log log;
  const Bytes data = Data(sizeof(log));
  std::memcpy(&log, data.data(), sizeof(log));
  for (const uint8_t opcode : std::initializer_list<uint8_t>{
           0x02, 0x06, 0x08, 0x09, 0x0A, 0x0C, 0x18}) {
    EXPECT_NE(log.acs[opcode] & 1, 0u) << "admin " << Name(opcode);
  }
  for (const uint8_t opcode : std::initializer_list<uint8_t>{0, 1, 2}) {
    EXPECT_NE(log.iocs[opcode] & 1, 0u) << "I/O " << Name(opcode);
    // Linux would freeze its queues.
    EXPECT_EQ(log.iocs[opcode] & 0x70000, 0u) << "CSE of " << Name(opcode);
  }
}

TEST_F(Log, PartsAreThoseOfTheWhole) {
  // A page whose contents do not move.
  ASSERT_EQ(Get(0x03, 512), kGood);
  const Bytes whole = Data(512);
  for (const uint32_t offset : {0u, 4u, 8u, 64u, 500u}) {
    const uint32_t bytes = offset == 500 ? 12 : 12 + offset % 16;
    const std::string answer = Get(0x03, bytes, offset);
    Check(absl::StrCat("offset ", offset), answer, {kGood});
    if (answer != kGood || Spared("parts")) continue;
    const Bytes part = Data(bytes);
    EXPECT_EQ(std::memcmp(part.data(), whole.data() + offset, bytes), 0)
        << bytes << " at " << offset;
    // Exactly that many bytes.
    EXPECT_EQ(DiffersFrom(0xEE, controller_->data().bytes(bytes, 64)), "");
  }
}

TEST_F(Log, BehindTheEndAreZeroes) {
  const std::string answer = Get(0x03, 1024);
  Check("1024 of 512", answer, {kGood});
  if (answer != kGood) return;
  EXPECT_EQ(DiffersFrom(0, controller_->data().bytes(512, 512)), "");
}

TEST_F(Log, WrongOffsets) {
  // The discovery log is the one that hosts read in pieces; these are ours.
  Check("past the end", Get(0x03, 512, 516), {kField});
  Check("far past the end", Get(0x03, 512, uint64_t{1} << 40), {kField});
  Check("overflow", Get(0x03, 512, ~uint64_t{3}), {kField});
  Check("no multiple of 4", Get(0x03, 64, 2), {kField});
}

TEST_F(Log, ShortBuffer) {
  nvme::Sqe sqe;
  nvme::EncodeGetLogPage({.lid = 0x02, .length_bytes = 512}, &sqe);
  sqe.nsid = nvme::kNsidBroadcast;
  sqe.sgl = controller_->data().Keyed(0, 508);
  Check("508", Text(controller_->admin().Execute(sqe)), {"0x00F|DNR"});
  sqe.sgl = controller_->data().Keyed(0, 0);
  Check("0", Text(controller_->admin().Execute(sqe)), {"0x00F|DNR"});
  sqe.sgl = controller_->data().Keyed(0, 4096);
  Check("4096", Text(controller_->admin().Execute(sqe)), {kGood});
}

TEST_F(Log, SmallReadsOfSmart) {
  for (const uint32_t bytes : {4u, 20u, 508u}) {
    Check(absl::StrCat(bytes), Get(0x02, bytes), {kGood});
  }
}

TEST_F(Log, Unknown) {
  for (const uint8_t lid :
       std::initializer_list<uint8_t>{0x06, 0x1F, 0x6F, 0x7F, 0xC0, 0xFF}) {
    Check(Name(lid), Get(lid, 512), {"0x109|DNR", kField});
  }
}

TEST_F(Log, FailuresAreInTheErrorLog) {
  nvme::Sqe bad;
  bad.opcode = 0xC1;
  const auto response = controller_->admin().Execute(bad);
  ASSERT_EQ(Text(response), "0x001|DNR");
  if (!response->status().more()) GTEST_SKIP() << "no entry was announced";
  ASSERT_EQ(Get(0x01, 64), kGood);
  nvme_error_log_page entry;
  const Bytes data = Data(sizeof(entry));
  std::memcpy(&entry, data.data(), sizeof(entry));
  EXPECT_NE(entry.error_count, 0u);
  EXPECT_EQ(entry.cmdid, response->cqe.cid);
  EXPECT_EQ(entry.sqid, 0);
}

}  // namespace
}  // namespace sluice::conformance
