#include "blockdev/file_backing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/unit/blockdev/device_test_util.h"

namespace sluice::blockdev {
namespace {

TEST(FileBacking, TmpfsGoesThroughThePageCacheAndPunchesHoles) {
  TempFile file(kMeg, "/dev/shm");

  auto backing = Backing::Open(At(file.path()));

  ASSERT_THAT(backing, IsOk());
  const Geometry& geometry = (*backing)->geometry();
  EXPECT_FALSE(geometry.direct);
  EXPECT_EQ(geometry.buffer_alignment_bytes, 1u);
  EXPECT_TRUE(geometry.volatile_cache);
  EXPECT_TRUE(geometry.can_write_zeroes);
  EXPECT_TRUE(geometry.can_discard);
  EXPECT_TRUE(geometry.discard_reads_zero);
}

TEST(FileBacking, GeometryOfAnOrdinaryFile) {
  TempFile file(kMeg);

  auto backing = Backing::Open(At(file.path(), 4096));

  ASSERT_THAT(backing, IsOk());
  const Geometry& geometry = (*backing)->geometry();
  EXPECT_EQ(geometry.size_bytes, kMeg);
  EXPECT_EQ(geometry.block_bytes, 4096u);
  EXPECT_GE(geometry.physical_block_bytes, 4096u);
  EXPECT_TRUE(geometry.volatile_cache);
  EXPECT_FALSE(geometry.read_only);
}

TEST(FileBacking, ProbingTakesNoSpaceAndChangesNothing) {
  TempFile file(kMeg);

  auto backing = Backing::Open(At(file.path()));

  ASSERT_THAT(backing, IsOk());
  EXPECT_EQ(file.allocated_bytes(), 0u);
}

TEST(FileBacking, NoticesGrowthInWholeBlocks) {
  TestReactor reactor;
  TempFile file(kMeg);
  auto backing = Backing::Open(At(file.path(), 4096));
  ASSERT_THAT(backing, IsOk());
  auto device = (*backing)->Attach(reactor.get(), reactor.pool());
  ASSERT_THAT(device, IsOk());
  Buffer buffer(4096);
  buffer.Fill(3);
  EXPECT_EQ(reactor.Run((*device)->Write(kMeg, buffer.io(), false)),
            IoResult::kOutOfRange);

  file.Resize(2 * kMeg + 100);

  EXPECT_NE((*backing)->size_answer(), SizeAnswer::kFixed);
  const auto size_bytes = (*backing)->CurrentSizeBytes();
  ASSERT_THAT(size_bytes, IsOk());
  EXPECT_EQ(*size_bytes, 2 * kMeg);
  (*device)->set_size_bytes(*size_bytes);
  EXPECT_EQ(reactor.Run((*device)->Write(kMeg, buffer.io(), false)),
            IoResult::kOk);
}

}  // namespace
}  // namespace sluice::blockdev
