// The data path of files, on a real ring and on what stands in for one.
#include "blockdev/uring_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "core/frame_slab.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/blockdev/device_test_util.h"
#include "tests/unit/blockdev/folders_and_doors.h"

namespace sluice::blockdev {
namespace {

// A device over a file, opened as a backing.
struct Opened {
  Opened(TestReactor* reactor, const BackingOptions& options) {
    auto opened = Backing::Open(options);
    if (!opened.ok()) ADD_FAILURE() << opened.status();
    SLUICE_CHECK(opened.ok());
    backing = *std::move(opened);
    device = *backing->Attach(reactor->get(), reactor->pool());
  }
  std::unique_ptr<Backing> backing;
  std::unique_ptr<BlockDevice> device;
};

void ExpectRoundTrip(TestReactor* reactor, BlockDevice* device, uint64_t offset,
                     const Buffer& out, bool fua) {
  Buffer in(out.length_bytes());
  ASSERT_EQ(reactor->Run(device->Write(offset, out.io(), fua)), IoResult::kOk);
  ASSERT_EQ(reactor->Run(device->Read(offset, in.io())), IoResult::kOk);
  EXPECT_TRUE(in.Equals(out));
}

class UringDeviceFolder : public testing::TestWithParam<FolderAndDoor> {
 protected:
  std::string folder() const { return FolderOf(GetParam()); }
  RingOptions Options() const { return Through(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(, UringDeviceFolder, FoldersAndDoors(),
                         &FolderAndDoorName);

TEST_P(UringDeviceFolder, RoundTripsFuaAndFlush) {
  TestReactor reactor(Options());
  TempFile file(8 * kMeg, folder());
  for (const uint32_t block_bytes : {512u, 4096u}) {
    Opened opened(&reactor, At(file.path(), block_bytes));
    for (const size_t length :
         {size_t{block_bytes}, size_t{3 * block_bytes}, size_t{1} << 20}) {
      for (const bool fua : {false, true}) {
        Buffer out(length);
        out.Fill(static_cast<uint32_t>(length) + fua);
        ExpectRoundTrip(&reactor, opened.device.get(), 5 * block_bytes, out,
                        fua);
      }
    }
    EXPECT_EQ(reactor.Run(opened.device->Flush()), IoResult::kOk);
  }
}

TEST_P(UringDeviceFolder, MemoryAtOddAddressesIsCopied) {
  TestReactor reactor(Options());
  TempFile file(8 * kMeg, folder());
  Opened opened(&reactor, At(file.path()));
  for (const size_t length : {size_t{512}, size_t{1} << 20, size_t{1049088}}) {
    Buffer out(length, 3);
    out.Fill(static_cast<uint32_t>(length));
    ExpectRoundTrip(&reactor, opened.device.get(), 512, out, false);
    Buffer in(length, 7);
    ASSERT_EQ(reactor.Run(opened.device->Read(512, in.io())), IoResult::kOk);
    EXPECT_TRUE(in.Equals(out));
  }
}

TEST_P(UringDeviceFolder, RangeErrors) {
  TestReactor reactor(Options());
  TempFile file(kMeg, folder());
  Opened opened(&reactor, At(file.path()));
  BlockDevice* const device = opened.device.get();
  Buffer buffer(1024);

  EXPECT_EQ(reactor.Run(device->Read(kMeg - 1024, buffer.io())), IoResult::kOk);
  EXPECT_EQ(reactor.Run(device->Read(kMeg - 512, buffer.io())),
            IoResult::kOutOfRange);
  EXPECT_EQ(reactor.Run(device->Read(kMeg, buffer.io())),
            IoResult::kOutOfRange);
  EXPECT_EQ(reactor.Run(device->Write(UINT64_MAX - 511, buffer.io(), true)),
            IoResult::kOutOfRange);
}

class UringDeviceTest : public testing::TestWithParam<RingMask> {
 protected:
  RingOptions Options() const { return Through(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Doors, UringDeviceTest, testing::ValuesIn(kRingDoors),
                         &RingMaskName<testing::TestParamInfo<RingMask>>);

Task<void> WriteThenRead(BlockDevice* device, uint64_t offset,
                         const Buffer* out, const Buffer* in, int* good) {
  const IoResult written = co_await device->Write(offset, out->io(), false);
  if (written != IoResult::kOk) co_return;
  const IoResult read = co_await device->Read(offset, in->io());
  if (read == IoResult::kOk && in->Equals(*out)) ++*good;
}

TEST_P(UringDeviceTest, MoreUnalignedThanBounceBuffers) {
  TestReactor reactor(Options());
  TempFile file(8 * kMeg);
  Opened opened(&reactor, At(file.path()));
  std::vector<std::unique_ptr<Buffer>> buffers;
  Scope scope;
  int good = 0;

  for (uint32_t i = 0; i < 100; ++i) {
    buffers.push_back(std::make_unique<Buffer>(8192, 1 + i % 3));
    buffers.back()->Fill(i);
    const Buffer* out = buffers.back().get();
    buffers.push_back(std::make_unique<Buffer>(8192, 5));
    scope.Spawn(WriteThenRead(opened.device.get(), i * 8192, out,
                              buffers.back().get(), &good));
  }

  ASSERT_TRUE(reactor.RunUntil([&] { return scope.size() == 0; }));
  EXPECT_EQ(good, 100);
}

TEST_P(UringDeviceTest, ReadOnlyRefusesChanges) {
  TestReactor reactor(Options());
  TempFile file(kMeg);
  BackingOptions options = At(file.path());
  options.read_only = true;
  Opened opened(&reactor, options);
  Buffer buffer(512);

  EXPECT_EQ(reactor.Run(opened.device->Read(0, buffer.io())), IoResult::kOk);
  EXPECT_EQ(reactor.Run(opened.device->Write(0, buffer.io(), false)),
            IoResult::kReadOnly);
  EXPECT_EQ(reactor.Run(opened.device->WriteZeroes(0, 512, true, false)),
            IoResult::kReadOnly);
  EXPECT_EQ(reactor.Run(opened.device->Discard(0, 512)), IoResult::kReadOnly);
  EXPECT_EQ(reactor.Run(opened.device->Flush()), IoResult::kOk);
}

TEST_P(UringDeviceTest, ReadPastAShrunkFileIsAFault) {
  TestReactor reactor(Options());
  for (const char* const folder : {"", "/dev/shm"}) {
    TempFile file(kMeg, *folder == '\0' ? TempFolder() : folder);
    Opened opened(&reactor, At(file.path()));
    file.Resize(kMeg / 2);
    Buffer buffer(8192);

    EXPECT_EQ(reactor.Run(opened.device->Read(kMeg / 2 - 4096, buffer.io())),
              IoResult::kReadFault);
    EXPECT_EQ(reactor.Run(opened.device->Read(kMeg / 2, buffer.io())),
              IoResult::kReadFault);
  }
}

TEST_P(UringDeviceTest, ShortReadsAreResumed) {
  TestReactor reactor(Options());
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  UringFile file;
  file.fd = ends[0];
  file.geometry.size_bytes = kMeg;
  auto device = UringDevice::Create(file, reactor.get(), reactor.pool());
  ASSERT_THAT(device, IsOk());
  Buffer out(32 << 10);
  out.Fill(4);
  Buffer in(32 << 10);

  auto read = (*device)->Read(0, in.io());
  for (size_t sent = 0; sent < out.length_bytes(); sent += 1024) {
    EXPECT_FALSE(read.done());
    ASSERT_EQ(write(ends[1], out.data() + sent, 1024), 1024);
    reactor.RunTicks(10);
  }

  EXPECT_EQ(reactor.Run(std::move(read)), IoResult::kOk);
  EXPECT_TRUE(in.Equals(out));
  device->reset();
  close(ends[0]);
  close(ends[1]);
}

// The limit makes the kernel's writes short, then EFBIG.
TEST_P(UringDeviceTest, NoSpaceAfterAShortWrite) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  for (const char* const folder : {"", "/dev/shm"}) {
    TestReactor reactor(Options());
    TempFile file(kMeg, *folder == '\0' ? TempFolder() : folder);
    Opened opened(&reactor, At(file.path()));
    Buffer out(64 << 10);
    out.Fill(1);
    rlimit limited = old;
    limited.rlim_cur = 512 << 10;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limited), 0);

    const IoResult crossing =
        reactor.Run(opened.device->Write((512 << 10) - 8192, out.io(), false));
    const IoResult beyond =
        reactor.Run(opened.device->Write(768 << 10, out.io(), true));

    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
    EXPECT_EQ(crossing, IoResult::kNoSpace);
    EXPECT_EQ(beyond, IoResult::kNoSpace);
    Buffer in(8192);
    ASSERT_EQ(reactor.Run(opened.device->Read((512 << 10) - 8192, in.io())),
              IoResult::kOk);
    EXPECT_EQ(std::memcmp(in.data(), out.data(), 8192), 0);
  }
}

TEST_P(UringDeviceTest, FullFileSystemIsNoSpaceAndRecovers) {
  const std::string folder = UniquePath("small_mount");
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  if (mount("none", folder.c_str(), "tmpfs", 0, "size=1m") != 0) {
    rmdir(folder.c_str());
    GTEST_SKIP() << "cannot mount a tmpfs";
  }
  {
    TestReactor reactor(Options());
    TempFile file(4 * kMeg, folder);
    Opened opened(&reactor, At(file.path()));
    BlockDevice* const device = opened.device.get();
    Buffer out(2 * kMeg);
    out.Fill(1);
    Buffer small(4096);

    EXPECT_EQ(reactor.Run(device->Write(0, out.io(), false)),
              IoResult::kNoSpace);
    EXPECT_EQ(reactor.Run(device->Write(2 * kMeg, small.io(), true)),
              IoResult::kNoSpace);
    EXPECT_EQ(reactor.Run(device->Read(0, small.io())), IoResult::kOk);
    EXPECT_EQ(reactor.Run(device->Discard(0, 4 * kMeg)), IoResult::kOk);
    ExpectRoundTrip(&reactor, device, 2 * kMeg, small, true);
  }
  umount2(folder.c_str(), MNT_DETACH);
  rmdir(folder.c_str());
}

// A command costs a few frames of the slab: none of them is large.
TEST_P(UringDeviceTest, FramesAreSmall) {
  TestReactor reactor(Options());
  TempFile file(kMeg);
  Opened opened(&reactor, At(file.path()));
  Buffer odd(8192, 1);

  ExpectRoundTrip(&reactor, opened.device.get(), 0, odd, true);
  EXPECT_EQ(reactor.Run(opened.device->WriteZeroes(0, 4096, true, true)),
            IoResult::kOk);

  RecordProperty("largest_frame_bytes",
                 absl::StrCat(FrameSlab::ThreadStats().largest_bytes));
  EXPECT_LE(FrameSlab::ThreadStats().largest_bytes, 1024u);
}

TEST_P(UringDeviceTest, FuaWithoutDsyncFlushesBehind) {
  TestReactor reactor(Options());
  TempFile temp(kMeg);
  UringFile file;
  file.fd = open(temp.path().c_str(), O_RDWR | O_CLOEXEC);
  file.dsync = false;
  file.geometry.size_bytes = kMeg;
  auto device = UringDevice::Create(file, reactor.get(), reactor.pool());
  ASSERT_THAT(device, IsOk());
  Buffer out(4096);
  out.Fill(6);
  const uint64_t before = reactor->stats().ring_completions;

  ExpectRoundTrip(&reactor, device->get(), 0, out, true);

  EXPECT_GE(reactor->stats().ring_completions - before, 3u);
  device->reset();
  close(file.fd);
}

class UringDeviceFeature : public testing::TestWithParam<uint32_t> {};

TEST_P(UringDeviceFeature, WorksWithoutIt) {
  RingOptions options;
  options.features = kAllRingFeatures & ~GetParam();
  TestReactor reactor(options);
  TempFile file(4 * kMeg);
  Opened opened(&reactor, At(file.path()));
  Buffer out(256 << 10);
  out.Fill(GetParam());
  Buffer in(256 << 10);
  const int out_index =
      reactor->ring()->AddBuffer(out.data(), out.length_bytes());
  const int in_index = reactor->ring()->AddBuffer(in.data(), in.length_bytes());
  EXPECT_EQ(out_index >= 0, (reactor->ring()->features() & kFixedBuffers) != 0);
  BlockDevice* const device = opened.device.get();

  EXPECT_EQ(reactor.Run(device->Write(4096, out.io(out_index), true)),
            IoResult::kOk);
  EXPECT_EQ(reactor.Run(device->Read(4096, in.io(in_index))), IoResult::kOk);
  EXPECT_TRUE(in.Equals(out));
  EXPECT_EQ(reactor.Run(device->Discard(4096, 4096)), IoResult::kOk);
  EXPECT_EQ(reactor.Run(device->WriteZeroes(8192, 4096, false, true)),
            IoResult::kOk);
  EXPECT_EQ(reactor.Run(device->Flush()), IoResult::kOk);

  reactor->ring()->RemoveBuffer(out_index);
  reactor->ring()->RemoveBuffer(in_index);
}

INSTANTIATE_TEST_SUITE_P(, UringDeviceFeature,
                         testing::Values(0u, kSingleIssuer, kDeferTaskrun,
                                         kMultishotPoll, kMsgRing, kFixedFiles,
                                         kFixedBuffers, kIoUring));

Task<void> ReadOne(BlockDevice* device, uint64_t offset, IoBuffer buffer,
                   int* good) {
  const IoResult result = co_await device->Read(offset, buffer);
  if (result == IoResult::kOk) ++*good;
}

// R17: more operations than completion entries never overflow the ring.
TEST_P(UringDeviceTest, ThousandsInFlightNeverOverflowTheRing) {
  RingOptions options = Options();
  options.entries = 64;
  options.completions = 4096;
  TestReactor reactor(options);
  for (const char* const folder : {"", "/dev/shm"}) {
    TempFile file(4 * kMeg, *folder == '\0' ? TempFolder() : folder);
    Opened opened(&reactor, At(file.path()));
    Buffer memory(4096 * 512);
    Scope scope;
    int good = 0;

    for (uint64_t i = 0; i < 4096; ++i) {
      IoBuffer buffer;
      buffer.data = memory.data() + i * 512;
      buffer.length_bytes = 512;
      scope.Spawn(ReadOne(opened.device.get(), i * 512, buffer, &good));
    }
    ASSERT_TRUE(reactor.RunUntil([&] { return scope.size() == 0; }));

    EXPECT_EQ(good, 4096);
    EXPECT_TRUE(memory.IsZero());
    EXPECT_EQ(reactor->ring()->overflows(), 0u);
  }
}

}  // namespace
}  // namespace sluice::blockdev
