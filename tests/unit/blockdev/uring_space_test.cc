// Zeroing and discarding, and what happens where the calls do not work (R65).
#include <gtest/gtest.h>

#include "blockdev/limits.h"
#include "blockdev/uring_device.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/blockdev/device_test_util.h"
#include "tests/unit/blockdev/folders_and_doors.h"

namespace sluice::blockdev {
namespace {

constexpr uint64_t kFileBytes = 4 * kMeg;

// A file full of ones, through the backing or with the support told.
class UringSpace : public testing::TestWithParam<FolderAndDoor> {
 protected:
  UringSpace()
      : reactor_(Through(GetParam())), file_(kFileBytes, FolderOf(GetParam())) {
    fd_ = open(file_.path().c_str(), O_RDWR | O_CLOEXEC);
    std::memset(ones_.data(), 1, ones_.length_bytes());
    FillWithOnes();
  }
  ~UringSpace() override {
    device_.reset();
    close(fd_);
  }

  void FillWithOnes() {
    SLUICE_CHECK(pwrite(fd_, ones_.data(), kFileBytes, 0) == kFileBytes);
    SLUICE_CHECK(fsync(fd_) == 0);
  }
  void OpenBacking() {
    auto backing = Backing::Open(At(file_.path()));
    SLUICE_CHECK(backing.ok());
    backing_ = *std::move(backing);
    device_ = *backing_->Attach(reactor_.get(), reactor_.pool());
  }
  void OpenWith(const SpaceSupport& space) {
    UringFile file;
    file.fd = fd_;
    file.geometry.size_bytes = kFileBytes;
    file.space = space;
    device_ = *UringDevice::Create(file, reactor_.get(), reactor_.pool());
  }
  // Zeroes exactly in [offset, offset + length).
  void ExpectZeroOnlyIn(uint64_t offset, uint64_t length) {
    Buffer in(kFileBytes);
    ASSERT_EQ(reactor_.Run(device_->Read(0, in.io())), IoResult::kOk);
    EXPECT_TRUE(in.IsZero(offset, length));
    EXPECT_EQ(std::memcmp(in.data(), ones_.data(), offset), 0);
    EXPECT_EQ(std::memcmp(in.data() + offset + length, ones_.data(),
                          kFileBytes - offset - length),
              0);
  }

  TestReactor reactor_;
  TempFile file_;
  int fd_;
  Buffer ones_{kFileBytes};
  std::unique_ptr<Backing> backing_;
  std::unique_ptr<BlockDevice> device_;
};

TEST_P(UringSpace, WriteZeroesReadsBack) {
  OpenBacking();
  for (const bool may_deallocate : {false, true}) {
    for (const bool fua : {false, true}) {
      FillWithOnes();

      EXPECT_EQ(reactor_.Run(device_->WriteZeroes(1536, 2 * kMeg + 512,
                                                  may_deallocate, fua)),
                IoResult::kOk);

      ExpectZeroOnlyIn(1536, 2 * kMeg + 512);
    }
  }
}

TEST_P(UringSpace, DiscardReadsZeroAndGivesSpaceBack) {
  OpenBacking();
  const uint64_t before = file_.allocated_bytes();

  EXPECT_EQ(reactor_.Run(device_->Discard(kMeg, 2 * kMeg)), IoResult::kOk);

  ExpectZeroOnlyIn(kMeg, 2 * kMeg);
  EXPECT_LE(file_.allocated_bytes() + 2 * kMeg, before + 65536);
}

TEST_P(UringSpace, DiscardOfPartialFileBlocks) {
  OpenBacking();

  EXPECT_EQ(reactor_.Run(device_->Discard(512, 1024)), IoResult::kOk);

  ExpectZeroOnlyIn(512, 1024);
}

TEST_P(UringSpace, WritesZeroesWhereNothingElseWorks) {
  OpenWith(SpaceSupport());

  EXPECT_EQ(reactor_.Run(device_->WriteZeroes(512, 3 * kZeroBufferBytes + 1024,
                                              true, true)),
            IoResult::kOk);

  ExpectZeroOnlyIn(512, 3 * kZeroBufferBytes + 1024);
}

TEST_P(UringSpace, DiscardWhereNothingWorksDoesNothing) {
  OpenWith(SpaceSupport());

  EXPECT_EQ(reactor_.Run(device_->Discard(0, kMeg)), IoResult::kOk);

  ExpectZeroOnlyIn(0, 0);
}

// tmpfs has no ZERO_RANGE and no file has the ioctls: both are found out and
// zeroes are written.
TEST_P(UringSpace, FallsBackWhenACallTurnsOutUnsupported) {
  SpaceSupport space;
  space.zero_range = true;
  space.zero_ioctl = true;
  space.discard_ioctl = true;
  OpenWith(space);

  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(reactor_.Run(device_->WriteZeroes(4096, kMeg, false, false)),
              IoResult::kOk);
    EXPECT_EQ(reactor_.Run(device_->Discard(2 * kMeg, kMeg)), IoResult::kOk);
  }

  ExpectZeroOnlyIn(4096, kMeg);
}

TEST_P(UringSpace, EdgesOffTheAlignmentAreWritten) {
  SpaceSupport space;
  space.punch_hole = true;
  space.alignment_bytes = 4096;
  OpenWith(space);

  EXPECT_EQ(reactor_.Run(device_->WriteZeroes(1024, 16384, true, false)),
            IoResult::kOk);

  ExpectZeroOnlyIn(1024, 16384);
}

TEST_P(UringSpace, RangeErrors) {
  OpenBacking();

  EXPECT_EQ(reactor_.Run(device_->WriteZeroes(512, kFileBytes, true, true)),
            IoResult::kOutOfRange);
  EXPECT_EQ(reactor_.Run(device_->Discard(UINT64_MAX - 511, 1024)),
            IoResult::kOutOfRange);
  ExpectZeroOnlyIn(0, 0);
}

Task<void> DiscardOne(BlockDevice* device, uint64_t offset, int* good) {
  const IoResult result = co_await device->Discard(offset, 65536);
  if (result == IoResult::kOk) ++*good;
}

TEST_P(UringSpace, ManyAtOnceTakeTurns) {
  OpenBacking();
  Scope scope;
  int good = 0;

  for (uint64_t i = 0; i < 64; ++i) {
    scope.Spawn(DiscardOne(device_.get(), i * 65536, &good));
  }
  ASSERT_TRUE(reactor_.RunUntil([&] { return scope.size() == 0; }));

  EXPECT_EQ(good, 64);
  ExpectZeroOnlyIn(0, kFileBytes);
}

INSTANTIATE_TEST_SUITE_P(, UringSpace, FoldersAndDoors(), &FolderAndDoorName);

}  // namespace
}  // namespace sluice::blockdev
