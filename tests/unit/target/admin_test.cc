#include "target/admin.h"

#include "tests/unit/target/admin_fixture.h"

namespace sluice::target {
namespace {

using nvme::AdminOpcode;

class AdminTest : public AdminFixture {
 protected:
  std::unique_ptr<AdminCall> Abort(uint16_t sqid, uint16_t cid) {
    nvme::Sqe sqe;
    nvme::AbortCommand command;
    command.sqid = sqid;
    command.cid = cid;
    nvme::EncodeAbort(command, &sqe);
    return Execute(sqe);
  }
};

TEST(AdminDataBytes, IsWhatTheCommandMoves) {
  nvme::Sqe sqe;
  nvme::Status status;

  nvme::EncodeIdentify(nvme::IdentifyCommand(), &sqe);
  EXPECT_EQ(AdminDataBytes(sqe, &status), 4096u);

  nvme::GetLogPageCommand log;
  log.length_bytes = 20;
  nvme::EncodeGetLogPage(log, &sqe);
  EXPECT_EQ(AdminDataBytes(sqe, &status), 20u);

  nvme::SetFeaturesCommand set;
  set.fid = 0x16;
  nvme::EncodeSetFeatures(set, &sqe);
  EXPECT_EQ(AdminDataBytes(sqe, &status), 512u);
  set.fid = 0x0E;
  nvme::EncodeSetFeatures(set, &sqe);
  EXPECT_EQ(AdminDataBytes(sqe, &status), 8u);
  set.fid = 0x07;
  nvme::EncodeSetFeatures(set, &sqe);
  EXPECT_EQ(AdminDataBytes(sqe, &status), 0u);

  nvme::GetFeaturesCommand get;
  get.fid = 0x81;
  nvme::EncodeGetFeatures(get, &sqe);
  EXPECT_EQ(AdminDataBytes(sqe, &status), 0u);
  get.cdw11 = 1;
  nvme::EncodeGetFeatures(get, &sqe);
  EXPECT_EQ(AdminDataBytes(sqe, &status), 16u);

  for (const AdminOpcode opcode :
       {AdminOpcode::kAbort, AdminOpcode::kAsyncEventRequest,
        AdminOpcode::kKeepAlive, AdminOpcode::kSanitize}) {
    sqe = nvme::Sqe();
    sqe.opcode = static_cast<uint8_t>(opcode);
    EXPECT_EQ(AdminDataBytes(sqe, &status), 0u);
    EXPECT_EQ(status, nvme::kSuccess);
  }
}

TEST(AdminDataBytes, BoundsLogPagesByMdts) {
  nvme::Sqe sqe;
  nvme::Status status;
  nvme::GetLogPageCommand log;

  log.length_bytes = kTransferBytesMax;
  nvme::EncodeGetLogPage(log, &sqe);
  EXPECT_EQ(AdminDataBytes(sqe, &status), kTransferBytesMax);
  EXPECT_EQ(status, nvme::kSuccess);

  log.length_bytes = kTransferBytesMax + 4;
  nvme::EncodeGetLogPage(log, &sqe);
  EXPECT_EQ(AdminDataBytes(sqe, &status), 0u);
  EXPECT_EQ(status, nvme::kInvalidField.WithDnr());
}

TEST(AdminDataBytes, RefusesAnOddLogOffset) {
  nvme::Sqe sqe;
  nvme::Status status;
  nvme::GetLogPageCommand log;
  log.offset_bytes = 2;
  nvme::EncodeGetLogPage(log, &sqe);

  EXPECT_EQ(AdminDataBytes(sqe, &status), 0u);
  EXPECT_EQ(status, nvme::kInvalidField.WithDnr());
}

TEST_F(AdminTest, RefusesEverythingBeforeTheControllerIsReady) {
  BuildDisk();
  const nvme::Status expected = nvme::kCommandSequenceError.WithDnr();

  for (const AdminOpcode opcode :
       {AdminOpcode::kKeepAlive, AdminOpcode::kIdentify,
        AdminOpcode::kAsyncEventRequest, AdminOpcode::kFormatNvm}) {
    EXPECT_EQ(Plain(opcode)->status, expected);
  }

  Enable();
  EXPECT_EQ(Identify(nvme::Cns::kController, 0)->status, nvme::kSuccess);
}

TEST_F(AdminTest, RefusesUnknownOpcodes) {
  BuildDisk();
  Enable();

  for (const AdminOpcode opcode :
       {AdminOpcode::kDeleteIoSq, AdminOpcode::kCreateIoCq,
        AdminOpcode::kNamespaceManagement, AdminOpcode::kFormatNvm,
        AdminOpcode::kSecurityReceive, static_cast<AdminOpcode>(0xFF)}) {
    EXPECT_EQ(Plain(opcode)->status, nvme::kInvalidOpcode.WithDnr());
  }
}

TEST_F(AdminTest, DiscoveryControllersServeLess) {
  BuildDiscovery();
  Enable();

  EXPECT_EQ(Abort(0, 1)->status, nvme::kInvalidOpcode.WithDnr());
  EXPECT_EQ(Plain(AdminOpcode::kFormatNvm)->status,
            nvme::kInvalidOpcode.WithDnr());
  EXPECT_EQ(Plain(AdminOpcode::kKeepAlive)->status, nvme::kSuccess);
}

TEST_F(AdminTest, KeepAliveNeedsATimer) {
  BuildDisk();
  Enable();

  EXPECT_EQ(Plain(AdminOpcode::kKeepAlive)->status,
            nvme::kKeepAliveInvalid.WithDnr());

  controller_->SetKato(5000);
  EXPECT_EQ(Plain(AdminOpcode::kKeepAlive)->status, nvme::kSuccess);
}

TEST_F(AdminTest, KeepAliveKeepsTheControllerAlive) {
  BuildDisk();
  Enable();
  controller_->SetKato(5000);

  for (int i = 0; i < 4; ++i) {
    reactor_.Advance(absl::Seconds(3));
    EXPECT_EQ(Plain(AdminOpcode::kKeepAlive)->status, nvme::kSuccess);
  }
  EXPECT_EQ(shard_->probe()->keep_alive_expired, 0u);

  reactor_.Advance(absl::Seconds(6));
  EXPECT_EQ(shard_->probe()->keep_alive_expired, 1u);
}

TEST_F(AdminTest, AnyCommandKeepsADiscoveryControllerAlive) {
  BuildDiscovery();
  Enable();
  controller_->SetKato(5000);

  for (int i = 0; i < 4; ++i) {
    reactor_.Advance(absl::Seconds(3));
    EXPECT_EQ(Identify(nvme::Cns::kController, 0)->status, nvme::kSuccess);
  }
  EXPECT_EQ(shard_->probe()->keep_alive_expired, 0u);
}

TEST_F(AdminTest, EventRequestsWaitUpToTheirLimit) {
  BuildDisk();
  Enable();

  std::vector<std::unique_ptr<AdminCall>> waiting;
  for (uint16_t cid = 0; cid < kAerMax; ++cid) {
    waiting.push_back(StartAer(cid));
    EXPECT_FALSE(waiting.back()->done());
  }
  auto one_more = StartAer(99);

  ASSERT_TRUE(one_more->done());
  EXPECT_EQ(one_more->status, nvme::kAerLimitExceeded.WithDnr());
  EXPECT_EQ(controller_->parked_events(), kAerMax);

  controller_->AbortEvents();
  reactor_.RunReady();
  for (const auto& call : waiting) {
    ASSERT_TRUE(call->done());
    EXPECT_EQ(call->status, nvme::kAbortRequested);
  }
}

TEST_F(AdminTest, EventRequestTellsTheEvent) {
  BuildDisk();
  Enable();
  ASSERT_EQ(
      SetFeature(nvme::FeatureId::kAsyncEventConfiguration, 0x100)->status,
      nvme::kSuccess);
  auto call = StartAer(31);

  controller_->NamespaceChanged(2);
  EXPECT_FALSE(call->done());  // never from within
  reactor_.RunReady();

  ASSERT_TRUE(call->done());
  EXPECT_EQ(call->status, nvme::kSuccess);
  EXPECT_EQ(call->dw0(), 0x00040002u);
}

TEST_F(AdminTest, AbortEndsTheEventRequestThatItNames) {
  BuildDisk();
  Enable();
  auto first = StartAer(0xF01F);
  auto second = StartAer(0x001F);

  auto abort = Abort(0, 0x001F);
  EXPECT_EQ(abort->status, nvme::kSuccess);
  EXPECT_EQ(abort->dw0(), 0u);
  reactor_.RunReady();

  EXPECT_FALSE(first->done());
  ASSERT_TRUE(second->done());
  EXPECT_EQ(second->status, nvme::kAbortRequested);

  controller_->AbortEvents();
  reactor_.RunReady();
}

TEST_F(AdminTest, AbortOfAnythingElseIsNotAborted) {
  BuildDisk();
  Enable();
  auto waiting = StartAer(7);

  EXPECT_EQ(Abort(0, 8)->dw0(), 1u);
  EXPECT_EQ(Abort(1, 7)->dw0(), 1u);
  EXPECT_EQ(Abort(1, 7)->status, nvme::kSuccess);
  EXPECT_FALSE(waiting->done());

  controller_->AbortEvents();
  reactor_.RunReady();
}

TEST_F(AdminTest, EventRequestEndsAtOnceWhenTheControllerIsGoing) {
  BuildDisk();
  Enable();
  controller_->BeginTeardown("test");

  auto call = StartAer(1);

  ASSERT_TRUE(call->done());
  EXPECT_EQ(call->status, nvme::kAbortRequested);
}

}  // namespace
}  // namespace sluice::target
