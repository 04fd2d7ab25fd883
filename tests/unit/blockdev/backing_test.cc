// Backing::Open: what it takes and what it says when it does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/status_matchers.h"
#include "tests/unit/blockdev/device_test_util.h"

namespace sluice::blockdev {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;

TEST(BackingOpen, MissingFile) {
  const auto backing = Backing::Open(At("/tmp/no/such/file"));

  EXPECT_THAT(backing, StatusIs(StatusCode::kNotFound,
                                AllOf(HasSubstr("/tmp/no/such/file"),
                                      HasSubstr("truncate -s"))));
}

TEST(BackingOpen, Directory) {
  EXPECT_THAT(Backing::Open(At("/tmp")),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("/tmp: is a directory; name a file")));
}

TEST(BackingOpen, CharacterDevice) {
  EXPECT_THAT(Backing::Open(At("/dev/null")),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("/dev/null: is neither a regular file")));
}

TEST(BackingOpen, FifoDoesNotBlock) {
  const std::string path = UniquePath("fifo");
  unlink(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);

  const auto backing = Backing::Open(At(path));

  EXPECT_THAT(backing, StatusIs(StatusCode::kInvalidArgument,
                                HasSubstr("neither a regular file")));
  unlink(path.c_str());
}

TEST(BackingOpen, EmptyFile) {
  TempFile file(0);

  EXPECT_THAT(
      Backing::Open(At(file.path())),
      StatusIs(StatusCode::kInvalidArgument,
               AllOf(HasSubstr(file.path()), HasSubstr("is empty; give"))));
}

TEST(BackingOpen, SizeNoMultipleOfTheBlock) {
  TempFile file(1000);

  EXPECT_THAT(
      Backing::Open(At(file.path())),
      StatusIs(StatusCode::kInvalidArgument,
               AllOf(HasSubstr(file.path()),
                     HasSubstr("size 1000 is not a multiple of the block "
                               "size 512; make it 1024 bytes"))));
}

TEST(BackingOpen, NamesTheSmallerBlockSizeThatFits) {
  TempFile file(4096 + 512);

  EXPECT_THAT(Backing::Open(At(file.path(), 4096)),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("use --block-size 512 or make it 8192")));
}

TEST(BackingOpen, UnsupportedBlockSize) {
  EXPECT_THAT(Backing::Open(At("ram:1M", 1024)),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("block size 1024 is not supported")));
}

TEST(BackingOpen, BadSizeTexts) {
  for (const char* const path :
       {"ram:", "ram:x", "ram:-1", "null:", "null:12Q", "ram:99999999999T"}) {
    EXPECT_THAT(Backing::Open(At(path)),
                StatusIs(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(path), HasSubstr("as in 64M"))));
  }
  for (const char* const path : {"ram:0", "null:513"}) {
    EXPECT_THAT(Backing::Open(At(path)),
                StatusIs(StatusCode::kInvalidArgument,
                         HasSubstr("must be a positive multiple")));
  }
}

TEST(BackingOpen, RamLargerThanTheAddressSpace) {
  EXPECT_THAT(Backing::Open(At("ram:1024P")).status().message(),
              HasSubstr("choose a smaller size"));
}

TEST(BackingOpen, NoPermission) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
  TempFile file(kMeg);
  ASSERT_EQ(chmod(file.path().c_str(), 0400), 0);
  ASSERT_EQ(seteuid(65534), 0);

  const auto backing = Backing::Open(At(file.path()));

  ASSERT_EQ(seteuid(0), 0);
  EXPECT_THAT(backing, StatusIs(StatusCode::kPermissionDenied,
                                AllOf(HasSubstr(file.path()),
                                      HasSubstr("--read-only"))));
}

TEST(BackingOpen, BusyFileAndShared) {
  TempFile file(kMeg);
  auto first = Backing::Open(At(file.path()));
  ASSERT_THAT(first, IsOk());
  BackingOptions shared = At(file.path());
  shared.shared = true;
  BackingOptions read_only = At(file.path());
  read_only.read_only = true;

  EXPECT_THAT(Backing::Open(At(file.path())),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(file.path()), HasSubstr("busy"),
                             HasSubstr("--shared"))));
  EXPECT_THAT(Backing::Open(read_only),
              StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_THAT(Backing::Open(shared), IsOk());

  first->reset();
  EXPECT_THAT(Backing::Open(At(file.path())), IsOk());
}

TEST(BackingOpen, ReadersShareAFile) {
  TempFile file(kMeg);
  BackingOptions options = At(file.path());
  options.read_only = true;

  auto first = Backing::Open(options);
  auto second = Backing::Open(options);

  ASSERT_THAT(first, IsOk());
  EXPECT_TRUE((*first)->geometry().read_only);
  EXPECT_FALSE((*first)->geometry().can_discard);
  EXPECT_THAT(second, IsOk());
  EXPECT_THAT(Backing::Open(At(file.path())),
              StatusIs(StatusCode::kFailedPrecondition));
}

TEST(BackingOpen, ReadOnlyFileSystem) {
  const std::string folder = UniquePath("ro_mount");
  mkdir(folder.c_str(), 0700);
  if (mount("none", folder.c_str(), "tmpfs", 0, "size=4m") != 0) {
    rmdir(folder.c_str());
    GTEST_SKIP() << "cannot mount a tmpfs";
  }
  {
    TempFile file(kMeg, folder);
    ASSERT_EQ(mount(nullptr, folder.c_str(), nullptr, MS_REMOUNT | MS_RDONLY,
                    nullptr),
              0);

    auto backing = Backing::Open(At(file.path()));

    ASSERT_THAT(backing, IsOk());
    EXPECT_TRUE((*backing)->geometry().read_only);
  }
  umount2(folder.c_str(), MNT_DETACH);
  rmdir(folder.c_str());
}

// R64
TEST(BackingOpen, FollowsSymlinks) {
  TempFile file(kMeg);
  const std::string link = file.path() + ".link";
  ASSERT_EQ(symlink(file.path().c_str(), link.c_str()), 0);

  auto backing = Backing::Open(At(link));

  ASSERT_THAT(backing, IsOk());
  EXPECT_EQ((*backing)->path(), link);
  EXPECT_EQ((*backing)->geometry().size_bytes, kMeg);
  unlink(link.c_str());
}

TEST(BackingOpen, DanglingSymlink) {
  const std::string link = UniquePath("dangling");
  unlink(link.c_str());
  ASSERT_EQ(symlink("/no/where", link.c_str()), 0);

  EXPECT_THAT(Backing::Open(At(link)), StatusIs(StatusCode::kNotFound));
  unlink(link.c_str());
}

}  // namespace
}  // namespace sluice::blockdev
