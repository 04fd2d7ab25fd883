// A target that stops while hosts write: what it has answered with success is
// in the backing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "nvme/io_command.h"
#include "tests/conformance/answers.h"
#include "tests/conformance/pattern.h"
#include "tests/support/fault_layer.h"
#include "tests/support/live_target.h"

namespace sluice::target {
namespace {

using conformance::Bytes;
using conformance::Pattern;
using conformance::Text;

constexpr uint32_t kDepth = 32;
constexpr uint32_t kBlockBytes = 512;
constexpr uint32_t kWriteBlocks = 8;
constexpr size_t kWriteBytes = size_t{kWriteBlocks} * kBlockBytes;
// Each write has a place of its own.
constexpr uint32_t kWriteCountMax = 4096;
constexpr uint32_t kWriterCount = 2;

struct Write {
  bool submitted = false;
  bool answered = false;
  nvme::Status status;
};

// A host on a thread of its own that writes with a full queue until its
// connection ends or it has written everything.
class Writer {
 public:
  Writer(LiveTarget* live, uint32_t index)
      : host_(live->Connect(kDepth, 4096, kDepth * kWriteBytes)),
        index_(index),
        writes_(kWriteCountMax) {}
  void Start() {
    thread_ = std::thread([this] { Run(); });
  }
  void Join() { thread_.join(); }

  uint32_t answered_count() const { return answered_count_; }
  const std::vector<Write>& writes() const { return writes_; }
  size_t OffsetOf(uint32_t number) const {
    return (size_t{index_} * kWriteCountMax + number) * kWriteBytes;
  }
  uint64_t SeedOf(uint32_t number) const { return OffsetOf(number) + 1; }

 private:
  void Run() {
    uint32_t submitted = 0;
    while (answered_count_ < kWriteCountMax) {
      while (submitted < kWriteCountMax &&
             submitted - answered_count_ < kDepth) {
        if (!Submit(submitted++)) return;
      }
      const auto response = host_.queue->connection().WaitAnyResponse();
      if (!response.ok()) return;
      Write& write = writes_[response->cqe.cid - first_cid_];
      write.answered = true;
      write.status = response->status();
      ++answered_count_;
    }
  }
  // Data in the capsule and fetched, by turns. Answers may overtake each other:
  // every write of the queue's depth has memory of its own.
  bool Submit(uint32_t number) {
    const uint64_t slba = OffsetOf(number) / kBlockBytes;
    const Bytes data = Pattern(SeedOf(number), kWriteBytes);
    nvme::Sqe sqe = host_.queue->BlockSqe(nvme::IoOpcode::kWrite, 1, slba,
                                          kWriteBlocks, kBlockBytes);
    writes_[number].submitted = true;
    const bool in_capsule = number % 2 == 0;
    if (in_capsule) sqe.sgl = nvme::EncodeInCapsule(0, kWriteBytes);
    absl::StatusOr<uint16_t> cid = absl::UnknownError("");
    if (in_capsule) {
      cid = host_.queue->Submit(sqe, data);
    } else {
      auto memory = host_.queue->connection().CreateMemory(kWriteBytes);
      SLUICE_CHECK(memory.ok());
      std::copy(data.begin(), data.end(), (*memory)->bytes().begin());
      sqe.sgl = (*memory)->Keyed(0, kWriteBytes);
      memory_.push_back(*std::move(memory));
      cid = host_.queue->Submit(sqe);
    }
    if (!cid.ok()) return false;
    if (number == 0) first_cid_ = *cid;
    return true;
  }

  LiveHost host_;
  std::vector<std::unique_ptr<conformance::RawMemory>> memory_;  // goes first
  const uint32_t index_;
  std::vector<Write> writes_;
  uint16_t first_cid_ = 0;
  std::atomic<uint32_t> answered_count_ = 0;
  std::thread thread_;
};

class StopTest : public ::testing::TestWithParam<int> {
 protected:
  StopTest() {
    path_ = absl::StrCat(::testing::TempDir(), "stop-XXXXXX");
    fd_ = mkstemp(path_.data());
    SLUICE_CHECK(fd_ >= 0);
    const size_t bytes = kWriteBytes * kWriteCountMax * kWriterCount;
    SLUICE_CHECK(ftruncate(fd_, static_cast<off_t>(bytes)) == 0);
  }
  ~StopTest() override {
    close(fd_);
    unlink(path_.c_str());
  }
  // On as many reactors as the parameter says, all on one processor.
  TargetOptions Options() {
    TargetOptions options = LiveTarget::Options();
    NamespaceOptions file{.path = path_};
    file.layer = faults_.layer();
    options.subsystems[0].namespaces = {file};
    options.cores.assign(static_cast<size_t>(GetParam()), sched_getcpu());
    return options;
  }
  Bytes InBacking(size_t offset) const {
    Bytes bytes(kWriteBytes);
    SLUICE_CHECK(
        pread(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset)) ==
        static_cast<ssize_t>(bytes.size()));
    return bytes;
  }
  // Stops the target once every writer has had some answers.
  void StopUnderLoad(const TargetOptions& options, absl::Duration delay) {
    LiveTarget live(options);
    if (delay > absl::ZeroDuration()) {
      faults_.Inject(blockdev::Operation::kWrite, {.delay = delay});
    }
    std::vector<std::unique_ptr<Writer>> writers;
    writers.reserve(kWriterCount);
    for (uint32_t i = 0; i < kWriterCount; ++i) {
      writers.push_back(std::make_unique<Writer>(&live, i));
    }
    for (const auto& writer : writers) writer->Start();
    ASSERT_TRUE(live.Until([&] {
      for (const auto& writer : writers) {
        if (writer->answered_count() < 2 * kDepth) return false;
      }
      return true;
    }));

    const bool clean = live.Stop();
    for (const auto& writer : writers) writer->Join();

    EXPECT_TRUE(clean);
    for (const auto& writer : writers) Verify(*writer);
  }
  void Verify(const Writer& writer) {
    const Bytes nothing(kWriteBytes);
    for (uint32_t i = 0; i < kWriteCountMax; ++i) {
      const Write& write = writer.writes()[i];
      const Bytes stored = InBacking(writer.OffsetOf(i));
      const bool written = stored == Pattern(writer.SeedOf(i), kWriteBytes);
      if (write.answered && write.status.ok()) {
        ++success_count_;
        EXPECT_TRUE(written) << "answered with success: write " << i;
        continue;
      }
      // A host may try again what was refused.
      EXPECT_FALSE(write.answered && write.status.dnr()) << "write " << i;
      EXPECT_TRUE(write.submitted || stored == nothing) << "write " << i;
      unanswered_count_ += write.submitted && !write.answered;
      // Whole or not at all.
      EXPECT_TRUE(written || stored == nothing) << "write " << i;
    }
  }

  std::string path_;
  int fd_ = -1;
  FaultLayer faults_;
  uint64_t success_count_ = 0;
  uint64_t unanswered_count_ = 0;
};

// R35
TEST_P(StopTest, AnsweredIsWritten) {
  StopUnderLoad(Options(), absl::ZeroDuration());

  EXPECT_GE(success_count_, 2 * kDepth * kWriterCount);
}

// R35: the backend is slow, and all that it has is waited for.
TEST_P(StopTest, WaitsForASlowBackend) {
  StopUnderLoad(Options(), absl::Milliseconds(20));

  EXPECT_GE(success_count_, 2 * kDepth * kWriterCount);
}

// R35: nothing is waited for; what is cut off is not answered.
TEST_P(StopTest, CutOffIsNotAnswered) {
  TargetOptions options = Options();
  options.drain_timeout = absl::ZeroDuration();

  StopUnderLoad(options, absl::Milliseconds(20));

  EXPECT_GE(success_count_, 2 * kDepth * kWriterCount);
  EXPECT_GT(unanswered_count_, 0u);
}

// R35: what was in the backend is answered before its connection goes, on
// whichever reactor that is: hosts have their queues on both.
TEST_P(StopTest, AnswersWhatIsInTheBackend) {
  TargetOptions options = Options();
  options.drain_timeout = absl::Minutes(1);
  LiveTarget live(options);
  std::vector<LiveHost> hosts;
  hosts.reserve(kWriterCount);
  for (uint32_t i = 0; i < kWriterCount; ++i) {
    hosts.push_back(live.Connect(kDepth, 0, kWriteBytes));
  }
  faults_.Inject(blockdev::Operation::kWrite,
                 {.delay = absl::Milliseconds(300)});
  for (const LiveHost& host : hosts) {
    for (uint64_t i = 0; i < kDepth; ++i) {
      ASSERT_TRUE(host.queue
                      ->Submit(host.queue->BlockSqe(nvme::IoOpcode::kWrite, 1,
                                                    i * kWriteBlocks,
                                                    kWriteBlocks, kBlockBytes))
                      .ok());
    }
  }
  ASSERT_TRUE(live.Until([&] {
    uint64_t count = 0;
    for (const auto& shard : live.Snapshot().shards) {
      count += shard.target.write_commands;
    }
    return count == uint64_t{kWriterCount} * kDepth;
  }));

  EXPECT_TRUE(live.Stop());
  for (const LiveHost& host : hosts) {
    for (uint32_t i = 0; i < kDepth; ++i) {
      ASSERT_EQ(Text(host.queue->connection().WaitAnyResponse()), "0x000")
          << "answer " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Reactors, StopTest, ::testing::Values(1, 2),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace sluice::target
