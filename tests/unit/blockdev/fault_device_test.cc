#include "blockdev/fault_device.h"

#include <gtest/gtest.h>

#include "tests/unit/blockdev/device_test_util.h"

namespace sluice::blockdev {
namespace {

class FaultDeviceTest : public testing::Test {
 protected:
  FaultDeviceTest() {
    backing_ = *Backing::Open(At("ram:4M"));
    device_ = std::make_unique<FaultDevice>(
        *backing_->Attach(reactor_.get(), reactor_.pool()), reactor_.get());
    buffer_.Fill(5);
  }
  IoResult Write(uint64_t offset) {
    return reactor_.Run(device_->Write(offset, buffer_.io(), false));
  }

  TestReactor reactor_;
  std::unique_ptr<Backing> backing_;
  std::unique_ptr<FaultDevice> device_;
  Buffer buffer_{8192};
};

TEST_F(FaultDeviceTest, PassesEverythingThrough) {
  Buffer in(8192);

  EXPECT_EQ(Write(0), IoResult::kOk);
  EXPECT_EQ(reactor_.Run(device_->Read(0, in.io())), IoResult::kOk);
  EXPECT_EQ(reactor_.Run(device_->Flush()), IoResult::kOk);
  EXPECT_EQ(reactor_.Run(device_->WriteZeroes(0, 512, true, true)),
            IoResult::kOk);
  EXPECT_EQ(reactor_.Run(device_->Discard(0, 512)), IoResult::kOk);

  EXPECT_TRUE(in.Equals(buffer_));
  EXPECT_EQ(device_->count(Operation::kWrite), 1u);
  EXPECT_EQ(device_->count(Operation::kDiscard), 1u);
  EXPECT_EQ(device_->faults(Operation::kWrite), 0u);
}

TEST_F(FaultDeviceTest, FailsTheNthOnce) {
  Fault fault;
  fault.nth = 2;
  fault.repeats = false;
  fault.result = IoResult::kNoSpace;
  device_->Inject(Operation::kWrite, fault);

  EXPECT_EQ(Write(0), IoResult::kOk);
  EXPECT_EQ(Write(0), IoResult::kNoSpace);
  EXPECT_EQ(Write(0), IoResult::kOk);
  EXPECT_EQ(Write(0), IoResult::kOk);
  EXPECT_EQ(device_->faults(Operation::kWrite), 1u);
}

TEST_F(FaultDeviceTest, FailsEveryNthOfEachKind) {
  Fault fault;
  fault.nth = 2;
  fault.result = IoResult::kGone;
  for (int i = 0; i < 5; ++i) {
    device_->Inject(static_cast<Operation>(i), fault);
  }

  for (int round = 0; round < 3; ++round) {
    const IoResult want = round == 1 ? IoResult::kGone : IoResult::kOk;
    EXPECT_EQ(Write(0), want);
    EXPECT_EQ(reactor_.Run(device_->Read(0, buffer_.io())), want);
    EXPECT_EQ(reactor_.Run(device_->Flush()), want);
    EXPECT_EQ(reactor_.Run(device_->WriteZeroes(0, 512, false, false)), want);
    EXPECT_EQ(reactor_.Run(device_->Discard(0, 512)), want);
  }
  device_->Clear();
  EXPECT_EQ(Write(0), IoResult::kOk);
}

TEST_F(FaultDeviceTest, TearsATransfer) {
  Fault fault;
  fault.result = IoResult::kWriteFault;
  fault.transfer_bytes = 4096;
  device_->Inject(Operation::kWrite, fault);

  EXPECT_EQ(Write(0), IoResult::kWriteFault);

  Buffer in(8192);
  ASSERT_EQ(reactor_.Run(device_->Read(0, in.io())), IoResult::kOk);
  EXPECT_EQ(std::memcmp(in.data(), buffer_.data(), 4096), 0);
  EXPECT_TRUE(in.IsZero(4096, 4096));
}

TEST_F(FaultDeviceTest, Delays) {
  Fault fault;
  fault.delay = absl::Milliseconds(30);
  device_->Inject(Operation::kWrite, fault);
  const int64_t start_nanos = Clock::Real()->NowNanos();

  EXPECT_EQ(Write(0), IoResult::kOk);

  EXPECT_GE(Clock::Real()->NowNanos() - start_nanos, 29 * kNanosPerMilli);
}

TEST_F(FaultDeviceTest, HangsUntilReleased) {
  Fault fault;
  fault.hang = true;
  device_->Inject(Operation::kFlush, fault);
  auto first = device_->Flush();
  auto second = device_->Flush();

  reactor_.RunTicks(20);
  EXPECT_FALSE(first.done());
  EXPECT_EQ(device_->hanging(), 2u);
  device_->Clear();
  device_->Release();

  EXPECT_EQ(reactor_.Run(std::move(first)), IoResult::kOk);
  EXPECT_EQ(reactor_.Run(std::move(second)), IoResult::kOk);
  EXPECT_EQ(device_->hanging(), 0u);
}

TEST_F(FaultDeviceTest, GrowthReachesTheDeviceBelow) {
  auto null = *Backing::Open(At("null:1M"));
  FaultDevice device(*null->Attach(reactor_.get(), reactor_.pool()),
                     reactor_.get());
  EXPECT_EQ(reactor_.Run(device.Discard(kMeg, 512)), IoResult::kOutOfRange);

  device.set_size_bytes(2 * kMeg);

  EXPECT_EQ(reactor_.Run(device.Discard(kMeg, 512)), IoResult::kOk);
}

}  // namespace
}  // namespace sluice::blockdev
