// The discovery controller and its log, read as libnvme 1.3, libnvme 1.16 and
// SPDK do [spec §5].
#include <algorithm>
#include <cstring>

#include "nvme/discovery_log.h"
#include "tests/conformance/conformance.h"

namespace sluice::conformance {
namespace {

constexpr const char* kGood = "0x000";
constexpr const char* kField = "0x002|DNR";
constexpr uint8_t kLid = 0x70;

class Discovery : public Conformance {
 protected:
  void SetUp() override {
    Conformance::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto controller = RawController::ConnectEnabled(target().discovery_host());
    ASSERT_TRUE(controller.ok()) << controller.status();
    controller_ = *std::move(controller);
  }
  void TearDown() override {
    controller_ = nullptr;
    Conformance::TearDown();
  }
  std::string Get(uint32_t bytes, uint64_t offset) {
    controller_->data().Fill(0xEE);
    return Text(controller_->GetLog({.lid = kLid,
                                     .retain_event = true,
                                     .length_bytes = bytes,
                                     .offset_bytes = offset},
                                    0));
  }
  absl::Span<std::byte> data(size_t bytes) {
    return controller_->data().bytes(0, bytes);
  }
  // The whole log, read in so large pieces; empty with a failure.
  Bytes ReadAll(uint32_t piece_bytes) {
    EXPECT_EQ(Get(1024, 0), kGood);
    const auto header = nvme::DecodeDiscoveryHeader(data(1024));
    if (!header.ok()) {
      ADD_FAILURE() << header.status();
      return {};
    }
    const size_t size = 1024 + 1024 * header->entry_count;
    Bytes log;
    while (log.size() < size) {
      const auto bytes = static_cast<uint32_t>(
          std::min<size_t>(piece_bytes, size - log.size()));
      EXPECT_EQ(Get(bytes, log.size()), kGood) << log.size();
      const auto piece = data(bytes);
      log.insert(log.end(), piece.begin(), piece.end());
    }
    return log;
  }

  std::unique_ptr<RawController> controller_;
};

TEST_F(Discovery, Identify) {
  const auto identity = controller_->IdentifyController();
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(identity->cntlid, controller_->cntlid());
  EXPECT_EQ(identity->sgls & 0x4, 0x4u);
  EXPECT_NE(identity->lpa & 0x4, 0);
  EXPECT_GE(identity->maxcmd, 2);
  Check("CNTRLTYPE", absl::StrCat(identity->cntrltype), {"2"});
}

TEST_F(Discovery, FirstTwentyBytes) {
  ASSERT_EQ(Get(20, 0), kGood);
  const auto header = nvme::DecodeDiscoveryHeader(data(20));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_GE(header->entry_count, 1u);
  EXPECT_EQ(std::to_integer<int>(controller_->data().bytes()[20]), 0xEE);
}

TEST_F(Discovery, ListsTheSubsystem) {
  const Bytes log = ReadAll(4096);
  bool found = false;
  for (size_t at = 1024; at < log.size(); at += 1024) {
    const auto entry =
        nvme::DecodeDiscoveryEntry(absl::MakeSpan(log).subspan(at, 1024));
    ASSERT_TRUE(entry.ok()) << entry.status();
    EXPECT_EQ(entry->transport, nvme::TransportType::kRdma);
    EXPECT_EQ(entry->service, absl::StrCat(host().port));
    EXPECT_EQ(entry->address, host().address);
    EXPECT_GE(entry->admin_depth_max, nvme::kAdminDepthMin);
    if (entry->subnqn == host().subnqn) {
      EXPECT_EQ(entry->subtype, nvme::SubsystemType::kNvm);
      EXPECT_EQ(entry->cntlid, nvme::kCntlidDynamic);
      found = true;
    }
  }
  EXPECT_TRUE(found);
}

TEST_F(Discovery, PiecesOfAnySize) {
  const Bytes whole = ReadAll(65536);
  ASSERT_FALSE(whole.empty());
  for (const uint32_t piece : {20u, 256u, 1000u, 1024u, 4096u}) {
    EXPECT_EQ(ReadAll(piece), whole) << piece;
  }
}

TEST_F(Discovery, GenerationAlone) {
  ASSERT_EQ(Get(1024, 0), kGood);
  const Bytes header(data(8).begin(), data(8).end());
  ASSERT_EQ(Get(8, 0), kGood);
  EXPECT_EQ(std::memcmp(header.data(), data(8).data(), 8), 0);
}

TEST_F(Discovery, BehindTheEndAreZeroes) {
  const Bytes log = ReadAll(4096);
  const auto bytes = static_cast<uint32_t>(log.size() + 2048);
  ASSERT_EQ(Get(bytes, 0), kGood);
  for (size_t i = log.size(); i < bytes; ++i) {
    ASSERT_EQ(controller_->data().bytes()[i], std::byte{0}) << i;
  }
}

TEST_F(Discovery, WrongOffsets) {
  Check("no multiple of 4", Get(64, 2), {kField});
  Check("past the end", Get(64, uint64_t{1} << 30), {kField});
  Check("overflow", Get(64, ~uint64_t{3}), {kField});
}

TEST_F(Discovery, NothingElse) {
  Check("CNS 00h", Text(controller_->Identify({.cns = 0}, 1)), {kField});
  Check("CNS 02h", Text(controller_->Identify({.cns = 2})), {kField});
  Check("SMART", Text(controller_->GetLog({.lid = 2, .length_bytes = 512})),
        {kField, "0x109|DNR"});
}

TEST_F(Discovery, Features) {
  Check("events", Text(controller_->SetFeature(0x0B, 0x80000000)), {kGood});
  Check("KATO", Text(controller_->SetFeature(0x0F, 30000)), {kGood});
  EXPECT_EQ(Text(controller_->KeepAlive()), kGood);
}

TEST_F(Discovery, NoIoQueues) {
  const RawHost host = target().discovery_host();
  const auto options = RawQueueOptions::Io(1, 16, controller_->cntlid());
  auto queue = RawQueue::Open(host, options);
  ASSERT_TRUE(queue.ok()) << queue.status();
  const ConnectAnswer answer = (*queue)->connection().Connect();
  if (!answer.established()) {
    Check("connection", answer.text(), {"rejected 3", "rejected 9"});
    return;
  }
  Check("Connect",
        ConnectText((*queue)->Connect(
            RawConnect::For(host, options.request, controller_->cntlid()))),
        {"0x182|DNR at 42/SQE"});
}

TEST_F(Discovery, ConnectsWithoutEnable) {
  auto controller = RawController::Connect(target().discovery_host());
  ASSERT_TRUE(controller.ok()) << controller.status();
  Check("", Text((*controller)->Identify({.cns = 1})),
        {"0x00C|DNR", "0x001|DNR"});
}

}  // namespace
}  // namespace sluice::conformance
