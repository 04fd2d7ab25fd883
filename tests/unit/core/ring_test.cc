#include "core/ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <numeric>
#include <type_traits>
#include <vector>

#include "core/clock.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/core/ring_masks.h"

namespace sluice {
namespace {

// Rule 9: an operation record stays where it is.
static_assert(!std::is_move_constructible_v<RingRequest>);
static_assert(!std::is_copy_constructible_v<RingRequest>);

constexpr uint32_t kSmallCompletions = 4096;

// Notes its completion, in order.
class Op final : public RingRequest {
 public:
  void OnCompletion(int32_t completed_with, uint32_t) override {
    ++completions;
    result = completed_with;
    if (order != nullptr) order->push_back(number);
  }

  int completions = 0;
  int32_t result = 1;
  int number = 0;
  std::vector<int>* order = nullptr;
};

class Pipe {
 public:
  Pipe() { SLUICE_CHECK(pipe2(fds_.data(), O_CLOEXEC) == 0); }
  ~Pipe() {
    CloseRead();
    close(fds_[1]);
  }
  int read_fd() const { return fds_[0]; }
  int write_fd() const { return fds_[1]; }
  void CloseRead() {
    if (fds_[0] >= 0) close(fds_[0]);
    fds_[0] = -1;
  }
  void Write(const char* text) {
    const auto length = static_cast<ssize_t>(std::strlen(text));
    SLUICE_CHECK(write(fds_[1], text, std::strlen(text)) == length);
  }

 private:
  std::array<int, 2> fds_{-1, -1};
};

class RingTest : public testing::TestWithParam<RingMask> {
 protected:
  RingTest() {
    RingOptions options;
    options.completions = kSmallCompletions;
    options.features = GetParam().features;
    options.files = 4;
    options.buffers = 4;
    ring_ = *Ring::Create(options);
  }
  ~RingTest() override { EXPECT_EQ(ring_->overflows(), 0u); }

  template <typename Pred>
  bool RunUntil(Pred pred) {
    for (int i = 0; i < 5000 && !pred(); ++i) {
      ring_->Submit();
      if (ring_->Reap(128) == 0) ring_->Wait(kNanosPerMilli);
    }
    return pred();
  }

  std::unique_ptr<Ring> ring_;
};

INSTANTIATE_TEST_SUITE_P(Features, RingTest, testing::ValuesIn(kRingMasks),
                         &RingMaskName<testing::TestParamInfo<RingMask>>);

TEST_P(RingTest, CompletesAnOperation) {
  Op op;
  io_uring_prep_nop(op.sqe());

  ring_->Start(&op);
  EXPECT_EQ(ring_->in_flight(), 1u);

  ASSERT_TRUE(RunUntil([&] { return op.completions > 0; }));
  EXPECT_EQ(op.result, 0);
  EXPECT_EQ(ring_->in_flight(), 0u);
  EXPECT_FALSE(ring_->HasWork());
}

// The flags that a ring shares with the kernel.
class SharedFlags {
 public:
  explicit SharedFlags(const Ring& ring) {
    io_uring probe;
    io_uring_params params{};
    SLUICE_CHECK(io_uring_queue_init_params(2, &probe, &params) == 0);
    io_uring_queue_exit(&probe);
    page_ = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                 ring.fd(), IORING_OFF_SQ_RING);
    SLUICE_CHECK(page_ != MAP_FAILED);
    flags_ = reinterpret_cast<std::atomic<uint32_t>*>(
        static_cast<std::byte*>(page_) + params.sq_off.flags);
  }
  ~SharedFlags() { munmap(page_, kPageBytes); }
  std::atomic<uint32_t>& operator*() { return *flags_; }

 private:
  static constexpr size_t kPageBytes = 4096;
  void* page_;
  std::atomic<uint32_t>* flags_;
};

// The kernel's announcement of deferred work can come after the work was run,
// and stay: with it a reactor would never sleep again.
TEST(UringRing, WorkThatWasAnnouncedTooLateKeepsNobodyAwake) {
  const auto ring = *Ring::Create({});
  if (ring->fd() < 0) GTEST_SKIP() << "io_uring is refused here";
  SharedFlags flags(*ring);
  (*flags) |= IORING_SQ_TASKRUN;

  EXPECT_FALSE(ring->HasWork());
  ring->Submit();
  EXPECT_EQ((*flags) & IORING_SQ_TASKRUN, 0u);
}

TEST_P(RingTest, WaitSubmitsAndReturnsOnCompletion) {
  Op op;
  io_uring_prep_nop(op.sqe());
  ring_->Start(&op);

  ring_->Wait(-1);
  ring_->Reap(1);

  EXPECT_EQ(op.completions, 1);
}

// R17: ten times more than fits; nothing overflows, and the order holds.
TEST_P(RingTest, ManyMoreThanFitCompleteInOrder) {
  constexpr size_t kCount = 10 * kSmallCompletions;
  std::vector<int> order;
  order.reserve(kCount);
  auto ops = std::make_unique<Op[]>(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    ops[i].number = static_cast<int>(i);
    ops[i].order = &order;
    io_uring_prep_nop(ops[i].sqe());
    ring_->Start(&ops[i]);
  }
  EXPECT_LT(ring_->in_flight(), kSmallCompletions);

  ASSERT_TRUE(RunUntil([&] { return order.size() == kCount; }));

  std::vector<int> expected(kCount);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
  EXPECT_EQ(ring_->overflows(), 0u);
}

// Each cancellation has a completion too.
TEST_P(RingTest, CancellingThemAllOverflowsNothing) {
  constexpr size_t kCount = 2 * kSmallCompletions;
  Pipe pipe;
  char byte;
  std::vector<int> order;
  auto ops = std::make_unique<Op[]>(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    ops[i].order = &order;
    io_uring_prep_read(ops[i].sqe(), pipe.read_fd(), &byte, 1, 0);
    ring_->Start(&ops[i]);
  }
  ring_->Submit();
  EXPECT_EQ(ring_->Reap(INT32_MAX), 0);

  for (size_t i = 0; i < kCount; ++i) {
    ring_->Cancel(&ops[i]);
    ring_->Cancel(&ops[i]);  // once is enough
  }
  EXPECT_TRUE(order.empty()) << "completed inside Cancel";

  ASSERT_TRUE(RunUntil([&] { return order.size() == kCount; }));
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(ops[i].result, -ECANCELED) << i;
    ASSERT_EQ(ops[i].completions, 1) << i;
  }
  EXPECT_EQ(ring_->overflows(), 0u);
}

TEST_P(RingTest, CancellingAnIdleOneDoesNothing) {
  Op op;
  io_uring_prep_nop(op.sqe());
  ring_->Cancel(&op);
  ring_->Start(&op);
  ASSERT_TRUE(RunUntil([&] { return op.completions == 1; }));

  ring_->Cancel(&op);
  ring_->Start(&op);

  ASSERT_TRUE(RunUntil([&] { return op.completions == 2; }));
  EXPECT_EQ(op.result, 0);
}

TEST_P(RingTest, CancelAndCompletionMayCross) {
  for (int i = 0; i < 1000; ++i) {
    auto op = std::make_unique<Op>();
    io_uring_prep_nop(op->sqe());
    ring_->Start(op.get());
    if (i % 2 == 0) ring_->Submit();
    ring_->Cancel(op.get());
    ASSERT_TRUE(RunUntil([&] { return op->completions == 1; }));
  }
}

struct Drained {
  static void OnReadable(void* context) {
    auto* self = static_cast<Drained*>(context);
    ++self->calls;
    char buffer[64];
    ssize_t count;
    while ((count = read(self->fd, buffer, sizeof(buffer))) > 0) {
      self->bytes += static_cast<int>(count);
    }
    if (self->unwatch_on != nullptr) {
      self->unwatch_on->Unwatch(self->watch);
      self->unwatch_on = nullptr;
    }
  }
  int fd;
  int calls = 0;
  int bytes = 0;
  Ring* unwatch_on = nullptr;
  FdWatch* watch = nullptr;
};

void SetNonBlocking(int fd) {
  SLUICE_CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
}

TEST_P(RingTest, AWatchSeesEveryEdge) {
  Pipe pipe;
  SetNonBlocking(pipe.read_fd());
  Drained drained{pipe.read_fd()};
  FdWatch* watch = ring_->Watch(pipe.read_fd(), &Drained::OnReadable, &drained);

  for (int i = 1; i <= 1000; ++i) {
    pipe.Write("abc");
    ASSERT_TRUE(RunUntil([&] { return drained.bytes == 3 * i; })) << i;
  }

  ring_->Unwatch(watch);
}

TEST_P(RingTest, AWatchSeesWhatWasReadableBefore) {
  Pipe pipe;
  SetNonBlocking(pipe.read_fd());
  pipe.Write("x");
  Drained drained{pipe.read_fd()};

  FdWatch* watch = ring_->Watch(pipe.read_fd(), &Drained::OnReadable, &drained);

  EXPECT_TRUE(RunUntil([&] { return drained.bytes == 1; }));
  ring_->Unwatch(watch);
}

// Whoever is awake is not told; whoever sleeps is, of what came before as well.
TEST_P(RingTest, AWatchAsleepWakesSleepers) {
  Pipe pipe;
  SetNonBlocking(pipe.read_fd());
  Drained drained{pipe.read_fd()};
  FdWatch* watch =
      ring_->WatchAsleep(pipe.read_fd(), &Drained::OnReadable, &drained);

  for (int i = 1; i <= 100; ++i) {
    pipe.Write("abc");
    ring_->Submit();
    if ((ring_->features() & kIoUring) != 0) {
      EXPECT_EQ(ring_->Reap(128), 0) << i;
    }
    while (drained.bytes < 3 * i) {
      ring_->Wait(10 * kNanosPerSecond);
      ASSERT_GT(ring_->Reap(128), 0) << i;
    }
  }

  ring_->Unwatch(watch);
}

TEST_P(RingTest, AWatchAsleepEndsInEitherState) {
  Pipe pipe;
  SetNonBlocking(pipe.read_fd());
  Drained drained{pipe.read_fd()};
  for (const bool slept : {false, true}) {
    FdWatch* watch =
        ring_->WatchAsleep(pipe.read_fd(), &Drained::OnReadable, &drained);
    if (slept) ring_->Wait(kNanosPerMilli);
    pipe.Write("a");  // on its way, if it was armed

    ring_->Unwatch(watch);
    ring_->Submit();
    ring_->Wait(kNanosPerMilli);
    ring_->Reap(128);

    EXPECT_EQ(drained.calls, 0) << slept;
  }
}

TEST_P(RingTest, AHandlerMayUnwatchAsleep) {
  Pipe pipe;
  SetNonBlocking(pipe.read_fd());
  Drained drained{pipe.read_fd()};
  drained.unwatch_on = ring_.get();
  drained.watch =
      ring_->WatchAsleep(pipe.read_fd(), &Drained::OnReadable, &drained);
  pipe.Write("a");

  ring_->Wait(10 * kNanosPerSecond);
  ring_->Reap(128);

  EXPECT_EQ(drained.calls, 1);
}

TEST_P(RingTest, AHandlerMayUnwatch) {
  Pipe pipe;
  SetNonBlocking(pipe.read_fd());
  Drained drained{pipe.read_fd()};
  drained.unwatch_on = ring_.get();
  drained.watch = ring_->Watch(pipe.read_fd(), &Drained::OnReadable, &drained);
  pipe.Write("a");
  ASSERT_TRUE(RunUntil([&] { return drained.calls == 1; }));

  pipe.Write("b");
  ring_->Submit();
  ring_->Wait(kNanosPerMilli);
  ring_->Reap(128);

  EXPECT_EQ(drained.calls, 1);
}

TEST_P(RingTest, NoHandlerRunsAfterUnwatch) {
  Pipe pipe;
  Drained drained{pipe.read_fd()};
  FdWatch* watch = ring_->Watch(pipe.read_fd(), &Drained::OnReadable, &drained);
  ring_->Submit();
  pipe.Write("a");  // an event is on its way

  ring_->Unwatch(watch);
  ring_->Submit();
  ring_->Wait(kNanosPerMilli);
  ring_->Reap(128);

  EXPECT_EQ(drained.calls, 0);
}

TEST_P(RingTest, UnwatchLetsGoOfTheFile) {
  std::signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  Drained drained{pipe.read_fd()};
  FdWatch* watch = ring_->Watch(pipe.read_fd(), &Drained::OnReadable, &drained);
  ring_->Submit();

  ring_->Unwatch(watch);
  pipe.CloseRead();

  EXPECT_EQ(write(pipe.write_fd(), "a", 1), -1);
  EXPECT_EQ(errno, EPIPE);
}

TEST_P(RingTest, FixedFilesFallBackWhenTheTableIsFull) {
  Pipe pipe;
  pipe.Write("abcdef");
  std::vector<RingFile> files;
  for (int i = 0; i < 6; ++i) files.push_back(ring_->AddFile(pipe.read_fd()));

  const bool on = (ring_->features() & kFixedFiles) != 0;
  EXPECT_EQ(files[0].fixed, on);
  EXPECT_EQ(files[3].fixed, on);
  EXPECT_FALSE(files[4].fixed);
  for (RingFile file : files) {
    char byte = 0;
    Op op;
    io_uring_prep_read(op.sqe(), -1, &byte, 1, 0);
    file.Use(op.sqe());
    ring_->Start(&op);
    ASSERT_TRUE(RunUntil([&] { return op.completions > 0; }));
    EXPECT_EQ(op.result, 1);
  }
  for (RingFile file : files) ring_->RemoveFile(file);
  const RingFile again = ring_->AddFile(pipe.read_fd());
  EXPECT_EQ(again.fixed, on);
  ring_->RemoveFile(again);
}

TEST_P(RingTest, FixedBuffersAreUsedByTheirIndex) {
  Pipe pipe;
  pipe.Write("hello");
  alignas(4096) static char memory[4096];
  const int index = ring_->AddBuffer(memory, sizeof(memory));
  if ((ring_->features() & kFixedBuffers) == 0) {
    EXPECT_EQ(index, -1);
    return;
  }
  ASSERT_GE(index, 0);
  Op op;
  io_uring_prep_read_fixed(op.sqe(), pipe.read_fd(), memory + 8, 5, 0, index);

  ring_->Start(&op);

  ASSERT_TRUE(RunUntil([&] { return op.completions > 0; }));
  EXPECT_EQ(op.result, 5);
  EXPECT_EQ(std::memcmp(memory + 8, "hello", 5), 0);
  ring_->RemoveBuffer(index);
  EXPECT_EQ(ring_->AddBuffer(memory, sizeof(memory)), index);
  ring_->RemoveBuffer(index);
}

TEST_P(RingTest, ABufferTableThatIsFullSaysSo) {
  alignas(4096) static char memory[4096];
  std::vector<int> taken;
  for (int index; (index = ring_->AddBuffer(memory, 4096)) >= 0;) {
    taken.push_back(index);
  }

  EXPECT_EQ(taken.size(), (ring_->features() & kFixedBuffers) ? 4u : 0u);
  for (int index : taken) ring_->RemoveBuffer(index);
}

TEST_P(RingTest, AMessageWakesAnotherRing) {
  RingOptions options;
  options.features = GetParam().features;
  auto sleeper = *Ring::Create(options);
  if ((ring_->features() & kMsgRing) == 0) {
    EXPECT_FALSE(ring_->WakeByMessage(sleeper->fd(), -1));
    return;
  }

  ASSERT_TRUE(ring_->WakeByMessage(sleeper->fd(), -1));
  ring_->Submit();
  sleeper->Wait(-1);  // returns

  EXPECT_EQ(sleeper->Reap(10), 1);
  EXPECT_TRUE(RunUntil([&] { return !ring_->HasWork(); }));
}

// Where there is no ring any more there is nobody to wake either.
TEST_P(RingTest, AMessageToNoRingIsDropped) {
  if ((ring_->features() & kMsgRing) == 0) GTEST_SKIP() << "masked off";
  Pipe pipe;
  const int event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

  ring_->WakeByMessage(pipe.read_fd(), event);
  ASSERT_TRUE(RunUntil([&] { return !ring_->HasWork(); }));

  uint64_t count;
  EXPECT_EQ(read(event, &count, sizeof(count)), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_NE(ring_->features() & kMsgRing, 0u);
  close(event);
}

TEST_P(RingTest, DestroyingAnOperationInFlightDies) {
  Pipe pipe;
  char byte;

  EXPECT_DEATH(
      {
        Op op;
        io_uring_prep_read(op.sqe(), pipe.read_fd(), &byte, 1, 0);
        ring_->Start(&op);
      },
      "CHECK failed: state_");
}

TEST(Ring, TheKernelsErrorIsAStatus) {
  if (IoUringIsRefused()) GTEST_SKIP() << "io_uring is refused here";
  RingOptions options;
  options.entries = 0;

  EXPECT_THAT(Ring::Create(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr("io_uring_setup entries=0")));
}

TEST(Ring, DeferringWithoutASingleIssuerIsMaskedOff) {
  if (IoUringIsRefused()) GTEST_SKIP() << "io_uring is refused here";
  RingOptions options;
  options.features = kIoUring | kDeferTaskrun;

  auto ring = *Ring::Create(options);

  EXPECT_EQ(ring->features(), kIoUring);
}

}  // namespace
}  // namespace sluice
