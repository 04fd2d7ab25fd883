#include "blockdev/null_device.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/unit/blockdev/device_test_util.h"

namespace sluice::blockdev {
namespace {

TEST(NullDevice, ReadsZeroesNotWhatTheBufferHeld) {
  TestReactor reactor;
  auto backing = Backing::Open(At("null:1T"));
  ASSERT_THAT(backing, IsOk());
  auto device = *(*backing)->Attach(reactor.get(), reactor.pool());
  Buffer buffer(8192);
  buffer.Fill(9);

  EXPECT_EQ(reactor.Run(device->Write(kMeg, buffer.io(), true)), IoResult::kOk);
  EXPECT_EQ(reactor.Run(device->Read(kMeg, buffer.io())), IoResult::kOk);

  EXPECT_TRUE(buffer.IsZero());
  EXPECT_EQ(*(*backing)->CurrentSizeBytes(), kMeg << 20);
}

TEST(NullDevice, ChecksRangesAndReadOnly) {
  TestReactor reactor;
  BackingOptions options = At("null:1M");
  auto backing = Backing::Open(options);
  ASSERT_THAT(backing, IsOk());
  auto device = *(*backing)->Attach(reactor.get(), reactor.pool());
  options.read_only = true;
  auto frozen = Backing::Open(options);
  ASSERT_THAT(frozen, IsOk());
  auto frozen_device = *(*frozen)->Attach(reactor.get(), reactor.pool());
  Buffer buffer(512);

  EXPECT_EQ(reactor.Run(device->Read(kMeg, buffer.io())),
            IoResult::kOutOfRange);
  EXPECT_EQ(reactor.Run(device->Write(kMeg, buffer.io(), false)),
            IoResult::kOutOfRange);
  EXPECT_EQ(reactor.Run(device->Discard(0, 2 * kMeg)), IoResult::kOutOfRange);
  EXPECT_EQ(reactor.Run(device->WriteZeroes(0, kMeg, true, true)),
            IoResult::kOk);
  EXPECT_EQ(reactor.Run(device->Flush()), IoResult::kOk);
  EXPECT_EQ(reactor.Run(frozen_device->Write(0, buffer.io(), false)),
            IoResult::kReadOnly);
}

}  // namespace
}  // namespace sluice::blockdev
