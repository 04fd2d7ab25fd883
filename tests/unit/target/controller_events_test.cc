#include "nvme/aen.h"
#include "tests/unit/target/admin_fixture.h"

namespace sluice::target {
namespace {

class ControllerEventsTest : public AdminFixture {
 protected:
  void SetUp() override {
    BuildDisk();
    Enable();
    controller_->features()->async_events = nvme::kAecNamespace;
  }

  // Whether a request is told an event at once.
  std::optional<uint32_t> TakeEvent() {
    auto call = StartAer(1);
    if (!call->done()) {
      controller_->AbortEvent(1);
      reactor_.RunReady();
      return std::nullopt;
    }
    EXPECT_EQ(call->status, nvme::kSuccess);
    return call->dw0();
  }
};

TEST_F(ControllerEventsTest, AnEventWaitsForARequest) {
  controller_->Raise(nvme::kNamespaceChanged);

  EXPECT_EQ(TakeEvent(), 0x00040002u);
  EXPECT_EQ(TakeEvent(), std::nullopt);
}

TEST_F(ControllerEventsTest, OneOfAKindIsEnough) {
  controller_->Raise(nvme::kNamespaceChanged);
  controller_->Raise(nvme::kNamespaceChanged);

  EXPECT_EQ(TakeEvent(), 0x00040002u);
  EXPECT_EQ(TakeEvent(), std::nullopt);
}

TEST_F(ControllerEventsTest, AToldEventIsMaskedUntilItsLogIsRead) {
  controller_->Raise(nvme::kNamespaceChanged);
  ASSERT_EQ(TakeEvent(), 0x00040002u);

  controller_->Raise(nvme::kNamespaceChanged);
  EXPECT_EQ(TakeEvent(), std::nullopt);

  controller_->LogRead(nvme::LogId::kSmart);
  controller_->Raise(nvme::kNamespaceChanged);
  EXPECT_EQ(TakeEvent(), std::nullopt);

  controller_->LogRead(nvme::LogId::kChangedNamespaces);
  controller_->Raise(nvme::kNamespaceChanged);
  EXPECT_EQ(TakeEvent(), 0x00040002u);
}

TEST_F(ControllerEventsTest, ReadingTheLogSettlesWhatNobodyWasTold) {
  controller_->Raise(nvme::kNamespaceChanged);

  controller_->LogRead(nvme::LogId::kChangedNamespaces);

  EXPECT_EQ(TakeEvent(), std::nullopt);
}

TEST_F(ControllerEventsTest, RequestsAreServedInOrder) {
  auto first = StartAer(1);
  auto second = StartAer(2);
  controller_->features()->async_events |= nvme::kAecAna;

  controller_->Raise(nvme::kNamespaceChanged);
  controller_->Raise(nvme::kAnaChanged);
  reactor_.RunReady();

  ASSERT_TRUE(first->done());
  ASSERT_TRUE(second->done());
  EXPECT_EQ(first->dw0(), 0x00040002u);
  EXPECT_EQ(second->dw0(), 0x000C0302u);
}

struct EnableCase {
  nvme::AsyncEvent event;
  uint32_t bit;  // of feature 0Bh; 0: always on
};

TEST_F(ControllerEventsTest, Feature0BhSwitchesThemOn) {
  const EnableCase cases[] = {
      {nvme::kNamespaceChanged, 1u << 8},
      {nvme::kFirmwareActivationStarting, 1u << 9},
      {nvme::kAnaChanged, 1u << 11},
      {nvme::kDiscoveryLogChanged, 1u << 31},
      {nvme::kReliabilityDegraded, 1u << 2},
      {nvme::kTemperatureThreshold, 1u << 1},
      {nvme::kSpareBelowThreshold, 1u << 0},
      {nvme::kPersistentInternalError, 0},
      {nvme::kReservationLogAvailable, 0},
  };
  for (const EnableCase& c : cases) {
    controller_->features()->async_events = ~c.bit;
    controller_->Raise(c.event);
    if (c.bit != 0) {
      EXPECT_EQ(TakeEvent(), std::nullopt) << c.event.dw0();
    }

    controller_->features()->async_events = c.bit;
    controller_->Raise(c.event);
    EXPECT_EQ(TakeEvent(), c.event.dw0());
  }
}

TEST_F(ControllerEventsTest, AbortForgetsWhatWasRaised) {
  controller_->Raise(nvme::kNamespaceChanged);

  controller_->AbortEvents();

  EXPECT_EQ(TakeEvent(), std::nullopt);
  controller_->Raise(nvme::kNamespaceChanged);
  EXPECT_EQ(TakeEvent(), 0x00040002u);
}

TEST_F(ControllerEventsTest, AResetEndsParkedRequests) {
  auto call = StartAer(1);

  WriteCc(0x00460000);
  reactor_.RunReady();

  ASSERT_TRUE(call->done());
  EXPECT_EQ(call->status, nvme::kAbortRequested);
  EXPECT_EQ(controller_->parked_events(), 0u);
}

TEST_F(ControllerEventsTest, ATakenRequestCanNoLongerBeAborted) {
  auto call = StartAer(1);
  controller_->Raise(nvme::kNamespaceChanged);

  EXPECT_FALSE(controller_->AbortEvent(1));
  reactor_.RunReady();

  ASSERT_TRUE(call->done());
  EXPECT_EQ(call->status, nvme::kSuccess);
}

TEST_F(ControllerEventsTest, ManyChangedNamespacesOverflow) {
  for (uint32_t nsid = 3000; nsid > 0; --nsid) {
    controller_->NamespaceChanged(nsid);
  }

  EXPECT_EQ(controller_->changed_namespaces()->size(), 1025u);
  EXPECT_EQ(GetLog(nvme::LogId::kChangedNamespaces, 8)->U64(0), 0xFFFFFFFFu);
}

}  // namespace
}  // namespace sluice::target
