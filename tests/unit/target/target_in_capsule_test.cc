// Every size of in-capsule data against every block size and kind of backing:
// what was written, in the capsule where it fits, is what is read.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "nvme/io_command.h"
#include "tests/conformance/answers.h"
#include "tests/conformance/pattern.h"
#include "tests/support/live_target.h"

namespace sluice::target {
namespace {

using conformance::Bytes;
using conformance::DiffersFrom;
using conformance::DiffersFromPattern;
using conformance::FillPattern;
using conformance::Pattern;
using conformance::Text;

constexpr uint32_t kTransferBytesMax = 128 * 1024;
// Before and behind what is written.
constexpr uint32_t kMarginBytes = 16 * 1024;
constexpr size_t kSpaceBytes = kTransferBytesMax + 2 * kMarginBytes;
constexpr uint8_t kUntouched = 0xEE;

struct Space {
  const char* name;
  bool file;
  uint32_t block_bytes;
};
constexpr Space kSpaces[] = {{"ram, 512", false, 512},
                             {"ram, 4096", false, 4096},
                             {"file, 512", true, 512},
                             {"file, 4096", true, 4096}};

class InCapsuleTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  InCapsuleTest() : live_(Options()) {
    host_ = live_.Connect(8, in_capsule_bytes() + 512, kSpaceBytes);
  }
  ~InCapsuleTest() override {
    for (const std::string& path : files_) unlink(path.c_str());
  }
  static uint32_t in_capsule_bytes() { return GetParam(); }

  TargetOptions Options() {
    TargetOptions options = LiveTarget::Options();
    options.in_capsule_bytes = in_capsule_bytes();
    options.subsystems[0].namespaces.clear();
    for (const Space& space : kSpaces) {
      NamespaceOptions made{.path = space.file ? NewFile() : "ram:1M"};
      made.block_bytes = space.block_bytes;
      options.subsystems[0].namespaces.push_back(made);
    }
    return options;
  }
  std::string NewFile() {
    std::string path = absl::StrCat(::testing::TempDir(), "in-capsule-XXXXXX");
    const int fd = mkstemp(path.data());
    SLUICE_CHECK(fd >= 0);
    SLUICE_CHECK(ftruncate(fd, 1 << 20) == 0);
    close(fd);
    files_.push_back(path);
    return path;
  }

  absl::Span<std::byte> Memory(size_t offset, size_t bytes) {
    return host_.queue->data().bytes(offset, bytes);
  }
  nvme::Sqe Block(nvme::IoOpcode opcode, uint32_t nsid, uint64_t offset_bytes,
                  uint32_t bytes) {
    const uint32_t block = kSpaces[nsid - 1].block_bytes;
    return host_.queue->BlockSqe(opcode, nsid, offset_bytes / block,
                                 bytes / block, block);
  }
  // The transfer and its margins become `kUntouched`.
  void Clear(uint32_t nsid) {
    host_.queue->data().Fill(kUntouched);
    ASSERT_EQ(Text(host_.queue->Execute(
                  Block(nvme::IoOpcode::kWrite, nsid, 0, kSpaceBytes))),
              "0x000");
  }
  // In the capsule behind `gap_bytes` that are none of it, or fetched.
  void Write(uint32_t nsid, uint32_t bytes, uint32_t gap_bytes, uint64_t seed) {
    nvme::Sqe sqe = Block(nvme::IoOpcode::kWrite, nsid, kMarginBytes, bytes);
    if (gap_bytes + bytes > in_capsule_bytes()) {
      FillPattern(seed, Memory(0, bytes));
      ASSERT_EQ(Text(host_.queue->Execute(sqe)), "0x000");
      return;
    }
    Bytes capsule(gap_bytes, std::byte{0x11});
    const Bytes data = Pattern(seed, bytes);
    capsule.insert(capsule.end(), data.begin(), data.end());
    sqe.sgl = nvme::EncodeInCapsule(gap_bytes, bytes);
    ASSERT_EQ(Text(host_.queue->Execute(sqe, capsule)), "0x000");
    ++in_capsule_count_;
  }
  void ExpectWritten(uint32_t nsid, uint32_t bytes, uint64_t seed) {
    host_.queue->data().Fill(0);
    ASSERT_EQ(Text(host_.queue->Execute(
                  Block(nvme::IoOpcode::kRead, nsid, 0, kSpaceBytes))),
              "0x000");
    EXPECT_EQ(DiffersFrom(kUntouched, Memory(0, kMarginBytes)), "");
    EXPECT_EQ(DiffersFromPattern(seed, Memory(kMarginBytes, bytes)), "");
    const size_t end = kMarginBytes + bytes;
    EXPECT_EQ(DiffersFrom(kUntouched, Memory(end, kSpaceBytes - end)), "");
  }

  std::vector<std::string> files_;
  LiveTarget live_;
  LiveHost host_;
  uint64_t in_capsule_count_ = 0;
};

// R54
TEST_P(InCapsuleTest, WrittenIsRead) {
  uint64_t seed = 0;
  for (uint32_t nsid = 1; nsid <= std::size(kSpaces); ++nsid) {
    const Space& space = kSpaces[nsid - 1];
    std::vector<uint32_t> sizes = {3 * space.block_bytes,
                                   31 * space.block_bytes};
    for (uint32_t bytes = space.block_bytes; bytes <= kTransferBytesMax;
         bytes *= 2) {
      sizes.push_back(bytes);
    }
    // The largest that fits, and one more block.
    for (const uint32_t more : {0u, space.block_bytes}) {
      const uint32_t bytes =
          in_capsule_bytes() / space.block_bytes * space.block_bytes + more;
      if (bytes > 0) sizes.push_back(bytes);
    }
    for (const uint32_t bytes : sizes) {
      for (const uint32_t gap_bytes : {0u, 16u}) {
        SCOPED_TRACE(
            absl::StrCat(space.name, ": ", bytes, " bytes, gap ", gap_bytes));
        ++seed;
        ASSERT_NO_FATAL_FAILURE(Clear(nsid));
        ASSERT_NO_FATAL_FAILURE(Write(nsid, bytes, gap_bytes, seed));
        ASSERT_NO_FATAL_FAILURE(ExpectWritten(nsid, bytes, seed));
      }
    }
  }
  EXPECT_EQ(live_.Snapshot().shards[0].target.in_capsule_writes,
            in_capsule_count_);
  EXPECT_EQ(in_capsule_count_ == 0, in_capsule_bytes() == 0);
}

// R54: an address, or a length, behind the end of the capsule is refused; the
// queue lives and the blocks are what they were.
TEST_P(InCapsuleTest, BehindTheEndIsRefused) {
  for (uint32_t nsid = 1; nsid <= std::size(kSpaces); ++nsid) {
    SCOPED_TRACE(kSpaces[nsid - 1].name);
    const uint32_t bytes = kSpaces[nsid - 1].block_bytes;
    ASSERT_NO_FATAL_FAILURE(Clear(nsid));
    nvme::Sqe sqe = Block(nvme::IoOpcode::kWrite, nsid, kMarginBytes, bytes);
    const Bytes capsule(std::min(bytes, in_capsule_bytes()), std::byte{0x11});

    for (const uint64_t offset : {uint64_t{16}, uint64_t{bytes},
                                  uint64_t{1} << 32, UINT64_MAX - bytes + 1}) {
      sqe.sgl = nvme::EncodeInCapsule(offset, bytes);
      const auto answer = host_.queue->Execute(sqe, capsule);
      ASSERT_TRUE(answer.ok()) << answer.status();
      EXPECT_FALSE(answer->ok()) << "offset " << offset;
      EXPECT_TRUE(answer->status().dnr()) << "offset " << offset;
    }
    host_.queue->data().Fill(0);
    ASSERT_EQ(Text(host_.queue->Execute(
                  Block(nvme::IoOpcode::kRead, nsid, 0, kSpaceBytes))),
              "0x000");
    EXPECT_EQ(DiffersFrom(kUntouched, Memory(0, kSpaceBytes)), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Field, InCapsuleTest,
                         ::testing::Values(0, 512, 4096, 8192, 16384),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace sluice::target
