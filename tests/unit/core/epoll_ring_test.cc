// What only this door has: threads, and watches by level. What every door does
// is in ring_test.cc and file_call_test.cc.
#include "core/epoll_ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>

#include "core/check.h"
#include "core/clock.h"

namespace sluice {
namespace {

// Reads a byte of a pipe that may never have one.
class ReadByte final : public RingRequest {
 public:
  explicit ReadByte(int fd) { io_uring_prep_read(sqe(), fd, &byte_, 1, 0); }
  void OnCompletion(int32_t completed_with, uint32_t) override {
    result = completed_with;
    done = true;
  }
  bool done = false;
  int32_t result = 0;

 private:
  char byte_ = 0;
};

size_t ThreadCount() {
  const std::filesystem::directory_iterator all("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

class EpollRingTest : public testing::Test {
 protected:
  static constexpr int kThreads = 2;

  EpollRingTest() {
    RingOptions options;
    options.threads = kThreads;
    ring_ = *EpollRing::Create(options);
    SLUICE_CHECK(pipe2(pipe_.data(), O_CLOEXEC | O_NONBLOCK) == 0);
    SLUICE_CHECK(fcntl(pipe_[0], F_SETFL, 0) == 0);
  }
  ~EpollRingTest() override {
    ring_.reset();
    close(pipe_[0]);
    CloseWriter();
  }
  void CloseWriter() {
    if (pipe_[1] >= 0) close(pipe_[1]);
    pipe_[1] = -1;
  }
  void Write(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      SLUICE_CHECK(write(pipe_[1], "x", 1) == 1);
    }
  }
  template <typename Pred>
  bool RunUntil(Pred pred) {
    for (int i = 0; i < 5000 && !pred(); ++i) {
      if (ring_->Reap(128) == 0) ring_->Wait(kNanosPerMilli);
    }
    return pred();
  }
  static void Count(void* calls) { ++*static_cast<int*>(calls); }

  std::unique_ptr<EpollRing> ring_;
  std::array<int, 2> pipe_;
  int calls_ = 0;
};

TEST_F(EpollRingTest, RunsAsManyAtOnceAsItHasThreads) {
  ReadByte first(pipe_[0]);  // TSan has a thread that comes with the first
  ring_->Start(&first);
  const size_t before = ThreadCount() - 1;
  std::array<std::unique_ptr<ReadByte>, 40> reads;
  for (auto& read : reads) {
    read = std::make_unique<ReadByte>(pipe_[0]);
    ring_->Start(read.get());
  }
  EXPECT_EQ(ThreadCount(), before + kThreads);
  EXPECT_EQ(ring_->in_flight(), 1 + reads.size());

  Write(1 + reads.size());

  ASSERT_TRUE(RunUntil([&] { return ring_->in_flight() == 0; }));
  for (const auto& read : reads) EXPECT_EQ(read->result, 1);
  EXPECT_EQ(ThreadCount(), before + kThreads);
}

TEST_F(EpollRingTest, AFinishedOperationEndsTheSleep) {
  ReadByte read(pipe_[0]);
  for (int i = 0; i < 100; ++i) {
    read.done = false;
    ring_->Start(&read);
    Write(1);

    while (!read.done) {
      ring_->Wait(-1);
      ring_->Reap(1);
    }

    EXPECT_FALSE(ring_->HasWork());
  }
}

// Not begun: over at once, and whoever runs is left alone.
TEST_F(EpollRingTest, WhatIsQueuedIsCancelledAtOnce) {
  ReadByte first(pipe_[0]);
  ReadByte second(pipe_[0]);
  ReadByte queued(pipe_[0]);
  for (ReadByte* read : {&first, &second, &queued}) ring_->Start(read);

  ring_->Cancel(&queued);
  EXPECT_FALSE(queued.done);
  EXPECT_EQ(ring_->in_flight(), 2u);
  EXPECT_EQ(ring_->Reap(10), 1);

  EXPECT_EQ(queued.result, -ECANCELED);
  EXPECT_FALSE(first.done);
  Write(2);
  ASSERT_TRUE(RunUntil([&] { return first.done && second.done; }));
  EXPECT_EQ(first.result, 1);
}

// A thread waits for the pipe: it gives up, and the ring can end.
TEST_F(EpollRingTest, AWaitForAStreamIsCancelled) {
  ReadByte read(pipe_[0]);
  ring_->Start(&read);
  ring_->Wait(5 * kNanosPerMilli);

  ring_->Cancel(&read);
  ring_->Cancel(&read);

  ASSERT_TRUE(RunUntil([&] { return read.done; }));
  EXPECT_EQ(read.result, -ECANCELED);
  ring_->Start(&read);  // as new
  Write(1);
  read.done = false;
  ASSERT_TRUE(RunUntil([&] { return read.done; }));
  EXPECT_EQ(read.result, 1);
}

TEST_F(EpollRingTest, CancellingWhatHasFinishedChangesNothing) {
  Write(1);
  ReadByte read(pipe_[0]);
  ring_->Start(&read);
  while (!ring_->HasWork()) ring_->Wait(kNanosPerMilli);

  ring_->Cancel(&read);

  ASSERT_TRUE(RunUntil([&] { return read.done; }));
  EXPECT_EQ(read.result, 1);
}

TEST_F(EpollRingTest, WhatAHandlerLeavesIsAnnouncedAgain) {
  FdWatch* watch = ring_->Watch(pipe_[0], &Count, &calls_);
  Write(1);

  for (int i = 1; i <= 3; ++i) {
    ring_->Wait(-1);
    EXPECT_EQ(ring_->Reap(10), 1);
    EXPECT_EQ(calls_, i);
  }

  ring_->Unwatch(watch);
  EXPECT_EQ(ring_->Reap(10), 0);
}

TEST_F(EpollRingTest, AHangUpIsNotAnnouncedForEver) {
  FdWatch* watch = ring_->Watch(pipe_[0], &Count, &calls_);
  CloseWriter();

  for (int i = 0; i < 10; ++i) {
    ring_->Wait(kNanosPerMilli);
    ring_->Reap(10);
  }

  EXPECT_GE(calls_, 1);
  EXPECT_LE(calls_, 2);
  ring_->Unwatch(watch);
}

TEST_F(EpollRingTest, AnEpollDescriptorCanBeWatched) {
  const int inner = epoll_create1(EPOLL_CLOEXEC);
  const int event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  epoll_event readable{};
  readable.events = EPOLLIN;
  ASSERT_EQ(epoll_ctl(inner, EPOLL_CTL_ADD, event, &readable), 0);
  FdWatch* watch = ring_->Watch(inner, &Count, &calls_);
  EXPECT_EQ(ring_->Reap(10), 0);

  for (int i = 1; i <= 3; ++i) {
    uint64_t count = 1;
    ASSERT_EQ(write(event, &count, sizeof(count)), 8);
    ring_->Wait(-1);
    EXPECT_EQ(ring_->Reap(10), 1);
    EXPECT_EQ(calls_, i);
    ASSERT_EQ(read(event, &count, sizeof(count)), 8);
  }

  ring_->Unwatch(watch);
  close(event);
  close(inner);
}

// Between the two, its event is already here.
TEST_F(EpollRingTest, AHandlerMayUnwatchAnother) {
  struct Pair {
    static void UnwatchOther(void* context) {
      auto* self = static_cast<Pair*>(context);
      ++self->calls;
      for (FdWatch*& watch : self->watches) {
        self->ring->Unwatch(watch);
      }
    }
    Ring* ring;
    std::array<FdWatch*, 2> watches;
    int calls = 0;
  };
  const int event = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
  Write(1);
  Pair pair{ring_.get(), {}};
  pair.watches[0] = ring_->Watch(pipe_[0], &Pair::UnwatchOther, &pair);
  pair.watches[1] = ring_->Watch(event, &Pair::UnwatchOther, &pair);

  EXPECT_EQ(ring_->Reap(10), 1);

  EXPECT_EQ(pair.calls, 1);
  close(event);
}

TEST_F(EpollRingTest, BoundsWhatItReaps) {
  Write(3);
  std::array<std::unique_ptr<ReadByte>, 3> reads;
  for (auto& read : reads) {
    read = std::make_unique<ReadByte>(pipe_[0]);
    ring_->Start(read.get());
  }
  FdWatch* watch = ring_->Watch(pipe_[0], &Count, &calls_);
  ring_->Unwatch(watch);

  int reaped = 0;
  while (reaped < 3) {
    const int now = ring_->Reap(1);
    ASSERT_LE(now, 1);
    reaped += now;
    if (now == 0) ring_->Wait(kNanosPerMilli);
  }
}

}  // namespace
}  // namespace sluice
