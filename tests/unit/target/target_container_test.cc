// A target in a plain container: an ordinary user, 8 MiB of locked memory, with
// io_uring refused and with it allowed. It serves a file as anywhere else, and
// says once what it has to do without.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "core/check.h"
#include "nvme/io_command.h"
#include "tests/conformance/answers.h"
#include "tests/conformance/pattern.h"
#include "tests/support/live_target.h"
#include "tests/support/plain_container.h"
#include "tests/unit/core/ring_masks.h"

namespace sluice::target {
namespace {

using conformance::Bytes;
using conformance::DiffersFrom;
using conformance::DiffersFromPattern;
using conformance::Pattern;
using conformance::Text;

constexpr uint32_t kDepth = 32;
constexpr uint32_t kBlockBytes = 512;
constexpr uint32_t kTransferBytes = 4096;
constexpr uint32_t kTransferBlocks = kTransferBytes / kBlockBytes;
constexpr uint64_t kTransferCount = 256;
constexpr uint64_t kClearedIndex = 7;

// A file of everybody's, for whoever the test becomes.
class SharedFile {
 public:
  SharedFile() {
    fd_ = mkstemp(path_.data());
    SLUICE_CHECK(fd_ >= 0);
    SLUICE_CHECK(fchmod(fd_, 0666) == 0);
    SLUICE_CHECK(ftruncate(fd_, kTransferCount * kTransferBytes) == 0);
  }
  ~SharedFile() {
    close(fd_);
    unlink(path_.c_str());
  }
  const std::string& path() const { return path_; }
  Bytes At(uint64_t index) const {
    Bytes bytes(kTransferBytes);
    SLUICE_CHECK(pread(fd_, bytes.data(), bytes.size(),
                       static_cast<off_t>(index * kTransferBytes)) ==
                 static_cast<ssize_t>(bytes.size()));
    return bytes;
  }

 private:
  std::string path_ = "/tmp/sluice-container-XXXXXX";
  int fd_;
};

// A host's work: every block written, one of them cleared, all flushed and read
// again. CHECKs, for it runs in a process of its own.
class Work {
 public:
  explicit Work(LiveTarget* live)
      : host_(live->Connect(kDepth, kTransferBytes,
                            size_t{kDepth} * kTransferBytes)) {}

  void Run() {
    for (uint64_t i = 0; i < kTransferCount; i += kDepth) Write(i);
    Expect(Block(nvme::IoOpcode::kWriteZeroes, kClearedIndex, 0));
    nvme::Sqe flush = Block(nvme::IoOpcode::kFlush, 0, 0);
    flush.cdw10 = flush.cdw11 = flush.cdw12 = 0;
    Expect(flush);
    for (uint64_t i = 0; i < kTransferCount; i += kDepth) Read(i);
  }

 private:
  nvme::Sqe Block(nvme::IoOpcode opcode, uint64_t index, size_t offset) {
    return host_.queue->BlockSqe(opcode, 1, index * kTransferBlocks,
                                 kTransferBlocks, kBlockBytes, offset);
  }
  absl::Span<std::byte> Memory(size_t offset) {
    return host_.queue->data().bytes(offset, kTransferBytes);
  }
  void Expect(const nvme::Sqe& sqe) {
    SLUICE_CHECK(Text(host_.queue->Execute(sqe)) == "0x000");
  }
  // A queue full of them at once; by turns in the capsule and fetched.
  void Write(uint64_t first) {
    for (uint64_t i = 0; i < kDepth; ++i) {
      const Bytes data = Pattern(first + i + 1, kTransferBytes);
      const size_t offset = i * kTransferBytes;
      nvme::Sqe sqe = Block(nvme::IoOpcode::kWrite, first + i, offset);
      if (i % 2 == 0) {
        sqe.sgl = nvme::EncodeInCapsule(0, kTransferBytes);
        SLUICE_CHECK(host_.queue->Submit(sqe, data).ok());
      } else {
        std::copy(data.begin(), data.end(), Memory(offset).begin());
        SLUICE_CHECK(host_.queue->Submit(sqe).ok());
      }
    }
    WaitAll();
  }
  void Read(uint64_t first) {
    host_.queue->data().Fill(0xEE);
    for (uint64_t i = 0; i < kDepth; ++i) {
      SLUICE_CHECK(host_.queue
                       ->Submit(Block(nvme::IoOpcode::kRead, first + i,
                                      i * kTransferBytes))
                       .ok());
    }
    WaitAll();
    for (uint64_t i = 0; i < kDepth; ++i) {
      const auto memory = Memory(i * kTransferBytes);
      SLUICE_CHECK((first + i == kClearedIndex
                        ? DiffersFrom(0, memory)
                        : DiffersFromPattern(first + i + 1, memory)) == "");
    }
  }
  void WaitAll() {
    for (uint32_t i = 0; i < kDepth; ++i) {
      SLUICE_CHECK(Text(host_.queue->connection().WaitAnyResponse()) ==
                   "0x000");
    }
  }

  LiveHost host_;
};

enum class IoUring { kRefused, kAllowed };

// Of those that we may use: for processor 0 there would be a warning, too.
int LastCpu() {
  cpu_set_t usable;
  SLUICE_CHECK(sched_getaffinity(0, sizeof(usable), &usable) == 0);
  int last = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &usable)) last = cpu;
  }
  return last;
}

// In a process of its own, which ends here.
[[noreturn]] void ServeInContainer(const std::string& path, IoUring io_uring) {
  BecomeOrdinaryUser();
  if (io_uring == IoUring::kRefused) RefuseIoUring(EPERM);
  TargetOptions options = LiveTarget::Options();
  options.log_level = LogLevel::kWarning;
  options.subsystems[0].namespaces = {{.path = path}};
  options.cores.assign(2, LastCpu());
  {
    LiveTarget live(options);
    Work(&live).Run();
    SLUICE_CHECK(live.Stop());
  }
  _exit(0);
}

// One line, of that.
auto OneWarning(const std::string& of_what) {
  return testing::AllOf(testing::ContainsRegex("^[^\n]* warning [^\n]*\n$"),
                        testing::HasSubstr(of_what));
}

class ContainerTest : public testing::Test {
 protected:
  void ExpectWritten() const {
    for (uint64_t i = 0; i < kTransferCount; ++i) {
      const Bytes bytes = file_.At(i);
      EXPECT_EQ(i == kClearedIndex ? DiffersFrom(0, bytes)
                                   : DiffersFromPattern(i + 1, bytes),
                "")
          << i;
    }
  }
  SharedFile file_;
};

TEST_F(ContainerTest, ServesWithoutIoUring) {
  EXPECT_EXIT(ServeInContainer(file_.path(), IoUring::kRefused),
              testing::ExitedWithCode(0), OneWarning("io_uring is refused"));

  ExpectWritten();
}

TEST_F(ContainerTest, ServesWithoutRegisteredBuffers) {
  if (IoUringIsRefused()) GTEST_SKIP() << "io_uring is refused here";

  EXPECT_EXIT(ServeInContainer(file_.path(), IoUring::kAllowed),
              testing::ExitedWithCode(0),
              OneWarning("io_uring cannot register buffers"));

  ExpectWritten();
}

}  // namespace
}  // namespace sluice::target
