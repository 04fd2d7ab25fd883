// The operations on both doors: what threads do instead of an io_uring must
// end as it does there.
#include "core/file_call.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>

#include "core/check.h"
#include "core/clock.h"
#include "core/ring.h"
#include "tests/unit/core/ring_masks.h"

namespace sluice {
namespace {

constexpr int kPunchHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

class Op final : public RingRequest {
 public:
  void OnCompletion(int32_t completed_with, uint32_t) override {
    result = completed_with;
    done = true;
  }
  bool done = false;
  int32_t result = 1;
};

class FileCallTest : public testing::TestWithParam<RingMask> {
 protected:
  FileCallTest() {
    RingOptions options;
    options.features = GetParam().features;
    ring_ = *Ring::Create(options);
    std::string path = testing::TempDir() + "file-call-XXXXXX";
    fd_ = mkstemp(path.data());
    SLUICE_CHECK(fd_ >= 0);
    read_only_fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    unlink(path.c_str());
    Put("0123456789");
  }
  ~FileCallTest() override {
    close(fd_);
    close(read_only_fd_);
  }
  void Put(const std::string& text) {
    SLUICE_CHECK(pwrite(fd_, text.data(), text.size(), 0) ==
                 static_cast<ssize_t>(text.size()));
  }
  std::string Content() {
    std::array<char, 64> bytes;
    const ssize_t count = pread(fd_, bytes.data(), bytes.size(), 0);
    SLUICE_CHECK(count >= 0);
    return std::string(bytes.data(), static_cast<size_t>(count));
  }
  int32_t Run(Op* op) {
    op->done = false;
    ring_->Start(op);
    while (!op->done) {
      ring_->Wait(kNanosPerSecond);
      ring_->Reap(1);
    }
    return op->result;
  }

  std::unique_ptr<Ring> ring_;
  int fd_;
  int read_only_fd_;
  std::array<char, 16> bytes_{};
  Op op_;
};

INSTANTIATE_TEST_SUITE_P(Doors, FileCallTest, testing::ValuesIn(kRingDoors),
                         &RingMaskName<testing::TestParamInfo<RingMask>>);

TEST_P(FileCallTest, ReadsAtTheOffset) {
  io_uring_prep_read(op_.sqe(), fd_, bytes_.data(), 4, 3);

  EXPECT_EQ(Run(&op_), 4);

  EXPECT_EQ(std::string(bytes_.data(), 4), "3456");
}

TEST_P(FileCallTest, ReadsAreShortAtTheEndAndNothingBehindIt) {
  io_uring_prep_read(op_.sqe(), fd_, bytes_.data(), 8, 6);
  EXPECT_EQ(Run(&op_), 4);

  io_uring_prep_read(op_.sqe(), fd_, bytes_.data(), 8, 10);
  EXPECT_EQ(Run(&op_), 0);
}

TEST_P(FileCallTest, WritesAtTheOffset) {
  io_uring_prep_write(op_.sqe(), fd_, "ab", 2, 8);
  EXPECT_EQ(Run(&op_), 2);
  EXPECT_EQ(Content(), "01234567ab");

  io_uring_prep_write(op_.sqe(), fd_, "cd", 2, 0);
  op_.sqe()->rw_flags = RWF_DSYNC;
  EXPECT_EQ(Run(&op_), 2);
  EXPECT_EQ(Content(), "cd234567ab");
}

TEST_P(FileCallTest, FlagsAreTheCalls) {
  io_uring_prep_write(op_.sqe(), fd_, "ab", 2, 0);
  op_.sqe()->rw_flags = RWF_APPEND;
  EXPECT_EQ(Run(&op_), 2);
  EXPECT_EQ(Content(), "0123456789ab");

  op_.sqe()->rw_flags = 1 << 30;
  EXPECT_EQ(Run(&op_), -EOPNOTSUPP);
}

TEST_P(FileCallTest, MakesHoles) {
  io_uring_prep_fallocate(op_.sqe(), fd_, kPunchHole, 2, 3);

  EXPECT_EQ(Run(&op_), 0);

  EXPECT_EQ(Content(), std::string("01\0\0\0"
                                   "56789",
                                   10));
}

TEST_P(FileCallTest, Syncs) {
  io_uring_prep_fsync(op_.sqe(), fd_, 0);
  EXPECT_EQ(Run(&op_), 0);

  io_uring_prep_fsync(op_.sqe(), fd_, IORING_FSYNC_DATASYNC);
  EXPECT_EQ(Run(&op_), 0);
}

TEST_P(FileCallTest, ErrorsAreNegativeErrnos) {
  io_uring_prep_read(op_.sqe(), -1, bytes_.data(), 4, 0);
  EXPECT_EQ(Run(&op_), -EBADF);

  io_uring_prep_write(op_.sqe(), read_only_fd_, "ab", 2, 0);
  EXPECT_EQ(Run(&op_), -EBADF);

  io_uring_prep_read(op_.sqe(), fd_, nullptr, 4, 0);
  EXPECT_EQ(Run(&op_), -EFAULT);

  io_uring_prep_fallocate(op_.sqe(), fd_, kPunchHole, 0, 0);
  EXPECT_EQ(Run(&op_), -EINVAL);
}

TEST_P(FileCallTest, AnUnknownOperationIsInvalid) {
  io_uring_prep_nop(op_.sqe());
  op_.sqe()->opcode = 250;

  EXPECT_EQ(Run(&op_), -EINVAL);
}

// Those of a stream have no offset, whatever the entry says.
TEST_P(FileCallTest, StreamsAreReadAndWrittenInOrder) {
  std::array<int, 2> pipe;
  ASSERT_EQ(pipe2(pipe.data(), O_CLOEXEC), 0);
  for (const char* const text : {"ab", "cd"}) {
    io_uring_prep_write(op_.sqe(), pipe[1], text, 2, 100);
    EXPECT_EQ(Run(&op_), 2);
  }

  io_uring_prep_read(op_.sqe(), pipe[0], bytes_.data(), 8, 0);
  EXPECT_EQ(Run(&op_), 4);
  EXPECT_EQ(std::string(bytes_.data(), 4), "abcd");

  close(pipe[1]);
  EXPECT_EQ(Run(&op_), 0);
  close(pipe[0]);
}

// Fixed ones with no table behind them: the caller's mistake on an io_uring.
TEST(FileCall, FixedBuffersAreMemoryAndFixedFilesInvalid) {
  const int zeroes = open("/dev/zero", O_RDWR | O_CLOEXEC);
  std::atomic<bool> cancelled{false};
  char byte = 'x';
  io_uring_sqe sqe;
  io_uring_prep_read_fixed(&sqe, zeroes, &byte, 1, 0, 0);
  EXPECT_EQ(RunFileCall(sqe, cancelled), 1);
  EXPECT_EQ(byte, 0);
  io_uring_prep_write_fixed(&sqe, zeroes, &byte, 1, 0, 0);
  EXPECT_EQ(RunFileCall(sqe, cancelled), 1);

  sqe.flags = IOSQE_FIXED_FILE;
  EXPECT_EQ(RunFileCall(sqe, cancelled), -EINVAL);
  close(zeroes);
}

}  // namespace
}  // namespace sluice
