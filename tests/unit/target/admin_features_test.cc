#include "tests/unit/target/admin_fixture.h"

namespace sluice::target {
namespace {

using nvme::FeatureId;

class AdminFeaturesTest : public AdminFixture {};

TEST_F(AdminFeaturesTest, StoresWhatIsOnlyStored) {
  BuildDisk();
  Enable();
  const struct {
    FeatureId fid;
    uint32_t value;
  } cases[] = {
      {FeatureId::kArbitration, 0x01020303},
      {FeatureId::kPowerManagement, 0x20},
      {FeatureId::kTemperatureThreshold, 350},
      {FeatureId::kErrorRecovery, 10},
      {FeatureId::kWriteAtomicity, 1},
      {FeatureId::kAsyncEventConfiguration, 0x11F},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(GetFeature(c.fid)->dw0(), 0u);
    EXPECT_EQ(SetFeature(c.fid, c.value)->status, nvme::kSuccess);
    const auto get = GetFeature(c.fid);
    EXPECT_EQ(get->status, nvme::kSuccess);
    EXPECT_EQ(get->dw0(), c.value);
  }
}

TEST_F(AdminFeaturesTest, IgnoresSelect) {
  BuildDisk();
  Enable();
  ASSERT_EQ(SetFeature(FeatureId::kArbitration, 5)->status, nvme::kSuccess);

  for (uint8_t select = 1; select <= 3; ++select) {
    EXPECT_EQ(GetFeature(FeatureId::kArbitration, 0, select)->dw0(), 5u);
  }
}

TEST_F(AdminFeaturesTest, RefusesUnknownFeatures) {
  BuildDisk();
  Enable();

  for (const int fid : {0x00, 0x08, 0x09, 0x0C, 0x10, 0x19, 0x80, 0x82, 0x84}) {
    EXPECT_EQ(SetFeature(static_cast<FeatureId>(fid), 0)->status,
              nvme::kInvalidField.WithDnr());
    EXPECT_EQ(GetFeature(static_cast<FeatureId>(fid))->status,
              nvme::kInvalidField.WithDnr());
  }
}

TEST_F(AdminFeaturesTest, SavesNothing) {
  BuildDisk();
  Enable();

  EXPECT_EQ(SetFeature(FeatureId::kArbitration, 5, 0, /*save=*/true)->status,
            nvme::kFeatureNotSaveable.WithDnr());
  EXPECT_EQ(GetFeature(FeatureId::kArbitration)->dw0(), 0u);
}

TEST_F(AdminFeaturesTest, SetLooksAtTheNsid) {
  BuildDisk();
  Enable();

  EXPECT_EQ(SetFeature(FeatureId::kArbitration, 5, 1)->status,
            nvme::kFeatureNotPerNamespace.WithDnr());
  EXPECT_EQ(SetFeature(FeatureId::kArbitration, 5, 0xFFFFFFFF)->status,
            nvme::kSuccess);
  EXPECT_EQ(SetFeature(FeatureId::kErrorRecovery, 5, 2)->status,
            nvme::kSuccess);
  EXPECT_EQ(SetFeature(FeatureId::kErrorRecovery, 5, 3)->status,
            nvme::kInvalidNamespace.WithDnr());
}

TEST_F(AdminFeaturesTest, RefusesWhatItCannotDo) {
  BuildDisk();
  Enable();

  EXPECT_EQ(SetFeature(FeatureId::kPowerManagement, 1)->status,
            nvme::kInvalidField.WithDnr());
  EXPECT_EQ(SetFeature(FeatureId::kErrorRecovery, 1u << 16)->status,
            nvme::kInvalidField.WithDnr());
  EXPECT_EQ(SetFeature(FeatureId::kAsyncEventConfiguration, 1u << 9)->status,
            nvme::kInvalidField.WithDnr());
  EXPECT_EQ(SetFeature(FeatureId::kAsyncEventConfiguration, 1u << 31)->status,
            nvme::kInvalidField.WithDnr());
}

TEST_F(AdminFeaturesTest, HasNoWriteCacheWithoutOne) {
  BuildDisk();  // memory
  Enable();

  EXPECT_EQ(SetFeature(FeatureId::kVolatileWriteCache, 1)->status,
            nvme::kInvalidField.WithDnr());
  EXPECT_EQ(GetFeature(FeatureId::kVolatileWriteCache)->status,
            nvme::kInvalidField.WithDnr());
}

TEST_F(AdminFeaturesTest, GrantsAsManyQueuesAsAskedFor) {
  BuildDisk();
  Enable();
  EXPECT_EQ(GetFeature(FeatureId::kNumberOfQueues)->dw0(), 0x007F007Fu);

  EXPECT_EQ(SetFeature(FeatureId::kNumberOfQueues, 0x00030003)->dw0(),
            0x00030003u);
  EXPECT_EQ(GetFeature(FeatureId::kNumberOfQueues)->dw0(), 0x00030003u);
  // A queue of ours is both.
  EXPECT_EQ(SetFeature(FeatureId::kNumberOfQueues, 0x00070003)->dw0(),
            0x00030003u);
  // SPDK's default.
  EXPECT_EQ(SetFeature(FeatureId::kNumberOfQueues, 0x03FF03FF)->dw0(),
            0x007F007Fu);
  EXPECT_EQ(controller_->granted_io_queues(), kIoQueuesMax);
}

TEST_F(AdminFeaturesTest, RefusesTooManyQueues) {
  BuildDisk();
  Enable();

  for (const uint32_t cdw11 : {0xFFFF0000u, 0x0000FFFFu, 0xFFFFFFFFu}) {
    EXPECT_EQ(SetFeature(FeatureId::kNumberOfQueues, cdw11)->status,
              nvme::kInvalidField.WithDnr());
  }
  EXPECT_EQ(controller_->granted_io_queues(), 0u);
}

TEST_F(AdminFeaturesTest, KeepsTheNumberOfQueuesOnceThereAreSome) {
  BuildDisk();
  Enable();
  ASSERT_EQ(SetFeature(FeatureId::kNumberOfQueues, 0)->status, nvme::kSuccess);
  nvme::ConnectCommand connect;
  connect.qid = 1;
  connect.sqsize = 31;
  nvme::ConnectData data;
  data.subnqn = MakeNqn(kTestNqn);
  data.hostnqn = MakeNqn(kTestHostNqn);
  IoQueueEntry entry;
  entry.qid = 1;
  entry.shard = shard_.get();
  entry.serial = 9;
  ASSERT_TRUE(controller_->Attach(connect, data, entry).ok());

  EXPECT_EQ(SetFeature(FeatureId::kNumberOfQueues, 0)->status,
            nvme::kCommandSequenceError.WithDnr());

  controller_->Detach(1, 9);
  EXPECT_EQ(SetFeature(FeatureId::kNumberOfQueues, 0)->status, nvme::kSuccess);
}

TEST_F(AdminFeaturesTest, RunsTheTimestampOn) {
  BuildDisk();
  Enable();
  EXPECT_EQ(GetFeature(FeatureId::kTimestamp)->U64(0), 0u);
  std::vector<std::byte> payload(8);
  nvme::Store64(absl::MakeSpan(payload), 0, 0xFFFF'0190'0000'0000);

  ASSERT_EQ(SetFeature(FeatureId::kTimestamp, 0, 0, false, payload)->status,
            nvme::kSuccess);
  reactor_.Advance(absl::Milliseconds(1500));

  // 48 bits of time, and that the host has set it.
  EXPECT_EQ(GetFeature(FeatureId::kTimestamp)->U64(0),
            (uint64_t{2} << 48 | 0x0190'0000'0000) + 1500);
}

TEST_F(AdminFeaturesTest, RoundsTheKeepAliveTimeUp) {
  BuildDisk();
  Enable();

  EXPECT_EQ(SetFeature(FeatureId::kKeepAliveTimer, 1500)->dw0(), 2000u);
  EXPECT_EQ(GetFeature(FeatureId::kKeepAliveTimer)->dw0(), 2000u);
  EXPECT_EQ(SetFeature(FeatureId::kKeepAliveTimer, 5000)->dw0(), 5000u);
  EXPECT_EQ(SetFeature(FeatureId::kKeepAliveTimer, 0)->dw0(), 0u);
  EXPECT_EQ(GetFeature(FeatureId::kKeepAliveTimer)->dw0(), 0u);
}

TEST_F(AdminFeaturesTest, StoresTheHostsBehaviour) {
  BuildDisk();
  Enable();
  EXPECT_TRUE(GetFeature(FeatureId::kHostBehaviour)->Zero(0, 512));
  std::vector<std::byte> payload(512);
  payload[0] = std::byte{1};
  payload[511] = std::byte{0x55};

  ASSERT_EQ(SetFeature(FeatureId::kHostBehaviour, 0, 0, false, payload)->status,
            nvme::kSuccess);

  EXPECT_EQ(GetFeature(FeatureId::kHostBehaviour)->memory, payload);
}

TEST_F(AdminFeaturesTest, TellsTheLongHostIdentifier) {
  BuildDisk();
  Enable();

  const auto call = GetFeature(FeatureId::kHostIdentifier, 1);
  ASSERT_EQ(call->status, nvme::kSuccess);
  EXPECT_EQ(call->memory, std::vector<std::byte>(16, std::byte{0xAB}));

  EXPECT_EQ(GetFeature(FeatureId::kHostIdentifier, 0)->status,
            nvme::kInvalidField.WithDnr());
  EXPECT_EQ(SetFeature(FeatureId::kHostIdentifier, 1)->status,
            nvme::kCommandSequenceError.WithDnr());
}

TEST_F(AdminFeaturesTest, DiscoveryControllersHaveTwo) {
  BuildDiscovery();
  Enable();

  EXPECT_EQ(SetFeature(FeatureId::kAsyncEventConfiguration, 0x80000000)->status,
            nvme::kSuccess);
  EXPECT_EQ(GetFeature(FeatureId::kAsyncEventConfiguration)->dw0(),
            0x80000000u);
  EXPECT_EQ(SetFeature(FeatureId::kAsyncEventConfiguration, 0x100)->status,
            nvme::kInvalidField.WithDnr());
  EXPECT_EQ(SetFeature(FeatureId::kKeepAliveTimer, 30000)->dw0(), 30000u);
  for (const FeatureId fid : {FeatureId::kNumberOfQueues, FeatureId::kTimestamp,
                              FeatureId::kArbitration}) {
    EXPECT_EQ(SetFeature(fid, 0)->status, nvme::kInvalidField.WithDnr());
    EXPECT_EQ(GetFeature(fid)->status, nvme::kInvalidField.WithDnr());
  }
}

}  // namespace
}  // namespace sluice::target
