// Block devices, on a loop device where the machine lets us make one.
#include "blockdev/disk_backing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <cerrno>

#include "blockdev/queue_attributes.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/blockdev/device_test_util.h"

namespace sluice::blockdev {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

constexpr uint64_t kDiskBytes = 16 * kMeg;

// Detaches itself when its last descriptor is closed.
class LoopDevice {
 public:
  LoopDevice(const std::string& path, uint32_t sector_bytes, bool read_only) {
    const UniqueFd control(open("/dev/loop-control", O_RDWR | O_CLOEXEC));
    const UniqueFd file(open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!control.ok() || !file.ok()) return;
    loop_config config{};
    config.fd = static_cast<uint32_t>(file.get());
    config.block_size = sector_bytes;
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
    if (read_only) config.info.lo_flags |= LO_FLAGS_READ_ONLY;
    for (int attempt = 0; attempt < 20 && !ok_; ++attempt) {
      const int index = ioctl(control.get(), LOOP_CTL_GET_FREE);
      if (index < 0) return;
      path_ = absl::StrCat("/dev/loop", index);
      fd_ = UniqueFd(open(path_.c_str(), O_RDWR | O_CLOEXEC));
      if (!fd_.ok()) return;
      ok_ = ioctl(fd_.get(), LOOP_CONFIGURE, &config) == 0;
      if (!ok_ && errno != EBUSY) return;
    }
  }

  bool ok() const { return ok_; }
  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  std::string path_;
  bool ok_ = false;
};

class DiskBackingTest : public testing::Test {
 protected:
  // Skips when there are no loop devices: call it as a statement and look at
  // IsSkipped().
  void Attach(uint32_t sector_bytes, bool read_only = false) {
    loop_ = std::make_unique<LoopDevice>(file_.path(), sector_bytes, read_only);
    if (!loop_->ok()) GTEST_SKIP() << "cannot make a loop device here";
  }
  std::unique_ptr<BlockDevice> OpenDevice(uint32_t block_bytes) {
    auto backing = Backing::Open(At(loop_->path(), block_bytes));
    EXPECT_THAT(backing, IsOk());
    if (!backing.ok()) return nullptr;
    backing_ = *std::move(backing);
    return *backing_->Attach(reactor_.get(), reactor_.pool());
  }

  TestReactor reactor_;
  TempFile file_{kDiskBytes};
  std::unique_ptr<LoopDevice> loop_;
  std::unique_ptr<Backing> backing_;
};

TEST_F(DiskBackingTest, RoundTripFlushAndGeometry) {
  Attach(512);
  if (IsSkipped()) return;
  auto device = OpenDevice(512);
  ASSERT_NE(device, nullptr);
  Buffer out(kMeg);
  out.Fill(1);
  Buffer in(kMeg, 1);

  EXPECT_EQ(reactor_.Run(device->Write(512, out.io(), true)), IoResult::kOk);
  EXPECT_EQ(reactor_.Run(device->Read(512, in.io())), IoResult::kOk);
  EXPECT_EQ(reactor_.Run(device->Flush()), IoResult::kOk);

  EXPECT_TRUE(in.Equals(out));
  EXPECT_TRUE(device->geometry().direct);
  EXPECT_EQ(device->geometry().size_bytes, kDiskBytes);
  EXPECT_FALSE(device->geometry().discard_reads_zero);
  struct stat info {};
  ASSERT_EQ(stat(loop_->path().c_str(), &info), 0);
  EXPECT_EQ(device->geometry().volatile_cache,
            QueueText(info.st_rdev, "write_cache") == "write back");
}

TEST_F(DiskBackingTest, WriteZeroesAndDiscard) {
  Attach(512);
  if (IsSkipped()) return;
  auto device = OpenDevice(512);
  ASSERT_NE(device, nullptr);
  for (const bool may_deallocate : {false, true}) {
    Buffer out(4 * kMeg);
    std::memset(out.data(), 1, out.length_bytes());
    ASSERT_EQ(reactor_.Run(device->Write(0, out.io(), false)), IoResult::kOk);

    EXPECT_EQ(reactor_.Run(device->WriteZeroes(1536, 2 * kMeg + 512,
                                               may_deallocate, true)),
              IoResult::kOk);

    Buffer in(4 * kMeg);
    ASSERT_EQ(reactor_.Run(device->Read(0, in.io())), IoResult::kOk);
    EXPECT_TRUE(in.IsZero(1536, 2 * kMeg + 512));
    EXPECT_EQ(in.data()[1535], std::byte{1});
    EXPECT_EQ(in.data()[1536 + 2 * kMeg + 512], std::byte{1});
  }
  EXPECT_TRUE(device->geometry().can_discard);
  EXPECT_EQ(reactor_.Run(device->Discard(3 * kMeg, kMeg)), IoResult::kOk);
  EXPECT_LE(file_.allocated_bytes(), kMeg + 128 * 1024);
}

// R63: 512-byte blocks on a disk of 4096-byte sectors.
TEST_F(DiskBackingTest, SmallBlocksOnLargeSectorsGoThroughThePageCache) {
  Attach(4096);
  if (IsSkipped()) return;
  auto device = OpenDevice(512);
  ASSERT_NE(device, nullptr);
  Buffer ones(8192);
  std::memset(ones.data(), 1, ones.length_bytes());
  ASSERT_EQ(reactor_.Run(device->Write(0, ones.io(), false)), IoResult::kOk);
  Buffer out(512, 1);
  out.Fill(8);
  Buffer in(512);

  EXPECT_EQ(reactor_.Run(device->Write(1024, out.io(), true)), IoResult::kOk);
  EXPECT_EQ(reactor_.Run(device->Read(1024, in.io())), IoResult::kOk);
  EXPECT_TRUE(in.Equals(out));
  EXPECT_EQ(reactor_.Run(device->WriteZeroes(2560, 4096, true, true)),
            IoResult::kOk);
  EXPECT_EQ(reactor_.Run(device->Discard(512, 1024)), IoResult::kOk);

  Buffer all(8192);
  ASSERT_EQ(reactor_.Run(device->Read(0, all.io())), IoResult::kOk);
  EXPECT_TRUE(all.IsZero(2560, 4096));
  EXPECT_EQ(all.data()[2559], std::byte{1});
  EXPECT_EQ(all.data()[6656], std::byte{1});
  EXPECT_FALSE(device->geometry().direct);
  EXPECT_TRUE(device->geometry().volatile_cache);
  EXPECT_EQ(device->geometry().physical_block_bytes, 4096u);
}

TEST_F(DiskBackingTest, LargeBlocksOnLargeSectorsAreDirect) {
  Attach(4096);
  if (IsSkipped()) return;
  auto device = OpenDevice(4096);
  ASSERT_NE(device, nullptr);
  Buffer out(12288, 512);
  out.Fill(2);
  Buffer in(12288);

  EXPECT_EQ(reactor_.Run(device->Write(4096, out.io(), false)), IoResult::kOk);
  EXPECT_EQ(reactor_.Run(device->Read(4096, in.io())), IoResult::kOk);

  EXPECT_TRUE(in.Equals(out));
  EXPECT_TRUE(device->geometry().direct);
}

TEST_F(DiskBackingTest, IsClaimedExclusivelyUnlessShared) {
  Attach(512);
  if (IsSkipped()) return;
  auto first = Backing::Open(At(loop_->path()));
  ASSERT_THAT(first, IsOk());
  BackingOptions shared = At(loop_->path());
  shared.shared = true;

  EXPECT_THAT(Backing::Open(At(loop_->path())),
              StatusIs(StatusCode::kFailedPrecondition,
                       testing::AllOf(HasSubstr(loop_->path()),
                                      HasSubstr("busy: claimed by another"))));
  EXPECT_THAT(Backing::Open(shared), IsOk());
}

TEST_F(DiskBackingTest, NamesTheMountPointOfABusyDisk) {
  Attach(512);
  if (IsSkipped()) return;
  const std::string make =
      absl::StrCat("mkfs.ext4 -q -F ", loop_->path(), " >/dev/null 2>&1");
  if (system(make.c_str()) != 0) GTEST_SKIP() << "no mkfs.ext4";
  const std::string folder = file_.path() + ".mnt";
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  const int rc = mount(loop_->path().c_str(), folder.c_str(), "ext4", 0, "");
  if (rc == 0) {
    EXPECT_THAT(Backing::Open(At(loop_->path())),
                StatusIs(StatusCode::kFailedPrecondition,
                         HasSubstr("busy: mounted at " + folder)));
    umount2(folder.c_str(), 0);
  }
  rmdir(folder.c_str());
  if (rc != 0) GTEST_SKIP() << "cannot mount";
}

TEST_F(DiskBackingTest, ReadOnlyDiskIsDetected) {
  Attach(512, true);
  if (IsSkipped()) return;
  auto device = OpenDevice(512);
  ASSERT_NE(device, nullptr);
  Buffer buffer(512);

  EXPECT_TRUE(device->geometry().read_only);
  EXPECT_EQ(reactor_.Run(device->Read(0, buffer.io())), IoResult::kOk);
  EXPECT_EQ(reactor_.Run(device->Write(0, buffer.io(), false)),
            IoResult::kReadOnly);
}

TEST_F(DiskBackingTest, Grows) {
  Attach(512);
  if (IsSkipped()) return;
  auto device = OpenDevice(512);
  ASSERT_NE(device, nullptr);
  file_.Resize(2 * kDiskBytes);

  ASSERT_EQ(ioctl(loop_->fd(), LOOP_SET_CAPACITY, 0), 0);

  EXPECT_EQ(*backing_->CurrentSizeBytes(), 2 * kDiskBytes);
  EXPECT_EQ(backing_->size_answer(), SizeAnswer::kAtOnce);
}

// R71: to the kernel a pulled disk has the size 0.
TEST_F(DiskBackingTest, DiskWithoutSizeIsGone) {
  Attach(512);
  if (IsSkipped()) return;
  auto device = OpenDevice(512);
  ASSERT_NE(device, nullptr);
  file_.Resize(0);
  ASSERT_EQ(ioctl(loop_->fd(), LOOP_SET_CAPACITY, 0), 0);
  Buffer buffer(4096);

  EXPECT_EQ(reactor_.Run(device->Read(0, buffer.io())), IoResult::kGone);
  EXPECT_EQ(reactor_.Run(device->Write(0, buffer.io(), false)),
            IoResult::kGone);
}

TEST_F(DiskBackingTest, EmptyDiskIsRefused) {
  Attach(512);
  if (IsSkipped()) return;
  file_.Resize(0);
  ASSERT_EQ(ioctl(loop_->fd(), LOOP_SET_CAPACITY, 0), 0);

  EXPECT_THAT(Backing::Open(At(loop_->path())),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("is empty")));
}

}  // namespace
}  // namespace sluice::blockdev
