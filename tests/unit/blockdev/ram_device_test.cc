#include "blockdev/ram_device.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "tests/support/status_matchers.h"
#include "tests/unit/blockdev/device_test_util.h"

namespace sluice::blockdev {
namespace {

class RamDeviceTest : public testing::Test {
 protected:
  RamDeviceTest() {
    auto backing = Backing::Open(At("ram:16M"));
    SLUICE_CHECK(backing.ok());
    backing_ = *std::move(backing);
    device_ = *backing_->Attach(reactor_.get(), reactor_.pool());
  }

  TestReactor reactor_;
  std::unique_ptr<Backing> backing_;
  std::unique_ptr<BlockDevice> device_;
};

TEST_F(RamDeviceTest, RoundTripWithoutSuspending) {
  Buffer out(64 << 10, 3);
  out.Fill(1);
  Buffer in(64 << 10);

  auto write = device_->Write(512, out.io(), true);
  ASSERT_TRUE(write.done());
  auto read = device_->Read(512, in.io());
  ASSERT_TRUE(read.done());

  EXPECT_EQ(write.await_resume(), IoResult::kOk);
  EXPECT_EQ(read.await_resume(), IoResult::kOk);
  EXPECT_TRUE(in.Equals(out));
  EXPECT_EQ(reactor_.Run(device_->Flush()), IoResult::kOk);
}

TEST_F(RamDeviceTest, IsSharedByItsDevices) {
  auto other = *backing_->Attach(reactor_.get(), reactor_.pool());
  Buffer out(4096);
  out.Fill(2);
  Buffer in(4096);

  ASSERT_EQ(reactor_.Run(device_->Write(0, out.io(), false)), IoResult::kOk);
  ASSERT_EQ(reactor_.Run(other->Read(0, in.io())), IoResult::kOk);

  EXPECT_TRUE(in.Equals(out));
}

TEST_F(RamDeviceTest, ClearsExactlyTheRange) {
  for (const uint64_t length : {uint64_t{512}, uint64_t{5120}, uint64_t{kMeg},
                                uint64_t{3 * kMeg + 512}}) {
    for (const bool discard : {false, true}) {
      Buffer out(4 * kMeg);
      out.Fill(7);
      for (size_t i = 0; i < out.length_bytes(); ++i) {
        out.data()[i] |= std::byte{1};
      }
      ASSERT_EQ(reactor_.Run(device_->Write(0, out.io(), false)),
                IoResult::kOk);

      const IoResult result = reactor_.Run(
          discard ? device_->Discard(1536, length)
                  : device_->WriteZeroes(1536, length, false, true));

      EXPECT_EQ(result, IoResult::kOk);
      Buffer in(4 * kMeg);
      ASSERT_EQ(reactor_.Run(device_->Read(0, in.io())), IoResult::kOk);
      EXPECT_TRUE(in.IsZero(1536, length)) << length;
      EXPECT_EQ(in.data()[1535], out.data()[1535]);
      EXPECT_EQ(in.data()[1536 + length], out.data()[1536 + length]);
    }
  }
}

TEST_F(RamDeviceTest, RangesAndReadOnly) {
  Buffer buffer(4096);

  EXPECT_EQ(reactor_.Run(device_->Read(16 * kMeg - 512, buffer.io())),
            IoResult::kOutOfRange);
  EXPECT_EQ(reactor_.Run(device_->Write(UINT64_MAX - 511, buffer.io(), false)),
            IoResult::kOutOfRange);
  EXPECT_EQ(reactor_.Run(device_->Discard(512, UINT64_MAX)),
            IoResult::kOutOfRange);

  BackingOptions options = At("ram:1M");
  options.read_only = true;
  auto backing = Backing::Open(options);
  ASSERT_THAT(backing, IsOk());
  auto device = *(*backing)->Attach(reactor_.get(), reactor_.pool());
  EXPECT_EQ(reactor_.Run(device->Write(0, buffer.io(), false)),
            IoResult::kReadOnly);
  EXPECT_EQ(reactor_.Run(device->Discard(0, 512)), IoResult::kReadOnly);
}

TEST_F(RamDeviceTest, HasNoVolatileCache) {
  EXPECT_FALSE(device_->geometry().volatile_cache);
  EXPECT_TRUE(device_->geometry().discard_reads_zero);
  EXPECT_EQ(*backing_->CurrentSizeBytes(), 16 * kMeg);
  EXPECT_EQ(backing_->size_answer(), SizeAnswer::kFixed);
}

TEST_F(RamDeviceTest, IsMemoryOnlyWhenLent) {
  EXPECT_EQ(device_->memory(), nullptr);

  const absl::Span<std::byte> memory = backing_->Lend();
  auto lent = *backing_->Attach(reactor_.get(), reactor_.pool());

  EXPECT_EQ(lent->memory(), memory.data());
  EXPECT_EQ(memory.size(), 16 * kMeg);
}

// An RDMA device knows lent memory by its pages: zeroing must not replace them.
TEST_F(RamDeviceTest, ZeroingLentMemoryKeepsItsPages) {
  const absl::Span<std::byte> memory = backing_->Lend();
  auto lent = *backing_->Attach(reactor_.get(), reactor_.pool());
  Buffer out(4 * kMeg);
  out.Fill(3);
  ASSERT_EQ(reactor_.Run(lent->Write(0, out.io(), false)), IoResult::kOk);

  EXPECT_EQ(reactor_.Run(lent->Discard(0, 8192)), IoResult::kOk);
  EXPECT_EQ(reactor_.Run(lent->WriteZeroes(kMeg, 2 * kMeg, true, false)),
            IoResult::kOk);

  for (const uint64_t at : {uint64_t{0}, uint64_t{4096}, kMeg, 2 * kMeg}) {
    unsigned char resident = 0;
    ASSERT_EQ(mincore(memory.data() + at, 4096, &resident), 0);
    EXPECT_EQ(resident & 1, 1) << at;
    EXPECT_EQ(memory[at], std::byte{0}) << at;
  }
  EXPECT_EQ(std::memcmp(memory.data() + 8192, out.data() + 8192, 4096), 0);
}

}  // namespace
}  // namespace sluice::blockdev
