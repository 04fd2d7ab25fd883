#include "core/async.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "core/task.h"
#include "tests/support/test_reactor.h"
#include "tests/unit/core/ring_masks.h"

namespace sluice {
namespace {

// What goes through the door to the kernel is tested with both.
class DoorTest : public testing::TestWithParam<RingMask> {
 protected:
  ReactorOptions Options(PollMode mode = PollMode::kHybrid) {
    ReactorOptions options;
    options.spin.mode = mode;
    options.ring.features = GetParam().features;
    return options;
  }
};
class RingOpTest : public DoorTest {};
class CallOnTest : public DoorTest {};
class CallBlockingTest : public DoorTest {};

constexpr auto kDoorName = &RingMaskName<testing::TestParamInfo<RingMask>>;
INSTANTIATE_TEST_SUITE_P(Doors, RingOpTest, testing::ValuesIn(kRingDoors),
                         kDoorName);
INSTANTIATE_TEST_SUITE_P(Doors, CallOnTest, testing::ValuesIn(kRingDoors),
                         kDoorName);
INSTANTIATE_TEST_SUITE_P(Doors, CallBlockingTest, testing::ValuesIn(kRingDoors),
                         kDoorName);

Task<int32_t> ReadPipe(Reactor* reactor, int fd, char* to) {
  RingOp op(reactor);
  io_uring_prep_read(op.sqe(), fd, to, 1, 0);
  const int32_t result = co_await op;
  co_return result;
}

TEST_P(RingOpTest, ReturnsTheResult) {
  TestReactor reactor(TestClock::kFake, Options());
  std::array<int, 2> fds;
  ASSERT_EQ(pipe(fds.data()), 0);
  char byte = 0;

  Task<int32_t> task = ReadPipe(reactor.get(), fds[0], &byte);
  reactor.RunReady();
  EXPECT_FALSE(task.done());
  ASSERT_EQ(write(fds[1], "z", 1), 1);

  ASSERT_TRUE(reactor.RunUntil([&] { return task.done(); }));
  EXPECT_EQ(task.await_resume(), 1);
  EXPECT_EQ(byte, 'z');
  close(fds[0]);
  close(fds[1]);
}

TEST_P(RingOpTest, ReturnsTheErrno) {
  TestReactor reactor(TestClock::kFake, Options());
  char byte = 0;

  Task<int32_t> task = ReadPipe(reactor.get(), -1, &byte);

  ASSERT_TRUE(reactor.RunUntil([&] { return task.done(); }));
  EXPECT_EQ(task.await_resume(), -EBADF);
}

// Rule 6: the operation fails, the frame runs to its end.
Task<void> ReadUntilCancelled(Reactor* reactor, int fd, RingRequest** current,
                              int32_t* result) {
  char byte = 0;
  RingOp op(reactor);
  io_uring_prep_read(op.sqe(), fd, &byte, 1, 0);
  *current = &op;
  *result = co_await op;
  *current = nullptr;
}

TEST_P(RingOpTest, IsCancelledByMakingItFail) {
  TestReactor reactor(TestClock::kFake, Options());
  std::array<int, 2> fds;
  ASSERT_EQ(pipe(fds.data()), 0);
  RingRequest* current = nullptr;
  int32_t result = 0;
  Scope scope;
  scope.Spawn(ReadUntilCancelled(reactor.get(), fds[0], &current, &result));
  reactor.RunReady();

  reactor->ring()->Cancel(current);
  EXPECT_EQ(scope.size(), 1u);

  ASSERT_TRUE(reactor.RunUntil([&] { return scope.size() == 0; }));
  EXPECT_EQ(result, -ECANCELED);
  EXPECT_EQ(current, nullptr);
  close(fds[0]);
  close(fds[1]);
}

Task<void> Sleeper(Reactor* reactor, absl::Duration duration,
                   std::vector<int>* order, int number) {
  co_await SleepFor(reactor, duration);
  order->push_back(number);
}

TEST(SleepFor, WakesInOrderOfTime) {
  TestReactor reactor;
  std::vector<int> order;
  Scope scope;
  scope.Spawn(Sleeper(reactor.get(), absl::Seconds(3), &order, 3));
  scope.Spawn(Sleeper(reactor.get(), absl::Seconds(1), &order, 1));
  scope.Spawn(Sleeper(reactor.get(), absl::Seconds(2), &order, 2));

  reactor.Advance(absl::Milliseconds(999));
  EXPECT_TRUE(order.empty());
  reactor.Advance(absl::Milliseconds(1));
  EXPECT_EQ(order, (std::vector<int>{1}));
  reactor.Advance(absl::Seconds(5));

  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(SleepFor, NothingIsNoWait) {
  TestReactor reactor;
  std::vector<int> order;

  Task<void> zero = Sleeper(reactor.get(), absl::ZeroDuration(), &order, 0);
  Task<void> negative = Sleeper(reactor.get(), -absl::Seconds(1), &order, 1);

  EXPECT_TRUE(zero.done());
  EXPECT_TRUE(negative.done());
}

TEST(SleepFor, ForEverDoesNotOverflow) {
  TestReactor reactor;
  std::vector<int> order;

  Task<void> task = Sleeper(reactor.get(), absl::InfiniteDuration(), &order, 0);
  reactor.Advance(absl::Hours(24 * 365 * 100));
  EXPECT_FALSE(task.done());

  reactor.Advance(
      absl::Nanoseconds(TimerHeap::kNever - reactor.clock()->NowNanos()));
  EXPECT_TRUE(task.done());
}

struct ThreadIdOf {
  std::thread::id operator()() const { return std::this_thread::get_id(); }
};

struct MakeUnique {
  std::unique_ptr<int> operator()() const { return std::make_unique<int>(9); }
};

struct Increment {
  int64_t* counter;  // the target's
  int64_t operator()() const { return ++*counter; }
};

struct Nothing {
  void operator()() const {}
};

Task<std::thread::id> WhereOn(Reactor* target) {
  ThreadIdOf function;
  auto call = CallOn(target, function);
  const std::thread::id id = co_await call;
  co_return id;
}

Task<int> MoveOnlyFrom(Reactor* target) {
  MakeUnique function;
  auto call = CallOn(target, function);
  const std::unique_ptr<int> result = co_await call;
  co_return *result;
}

Task<void> NothingOn(Reactor* target) {
  Nothing function;
  auto call = CallOn(target, function);
  co_await call;
}

TEST_P(CallOnTest, RunsOnTheOtherThreadAndResumesHere) {
  TestReactorThread other(Options());
  TestReactor reactor(TestClock::kFake, Options());
  std::thread::id there;
  other.Run([&] { there = std::this_thread::get_id(); });

  Task<std::thread::id> task = WhereOn(other.reactor());
  ASSERT_TRUE(reactor.RunUntil([&] { return task.done(); }));

  EXPECT_EQ(task.await_resume(), there);
  EXPECT_NE(there, std::this_thread::get_id());
}

TEST_P(CallOnTest, OnItsOwnReactorRunsAtOnce) {
  TestReactor reactor(TestClock::kFake, Options());

  Task<std::thread::id> task = WhereOn(reactor.get());

  ASSERT_TRUE(task.done());
  EXPECT_EQ(task.await_resume(), std::this_thread::get_id());
}

TEST_P(CallOnTest, CarriesMoveOnlyResultsAndNone) {
  TestReactorThread other(Options());
  TestReactor reactor(TestClock::kFake, Options());

  Task<int> task = MoveOnlyFrom(other.reactor());
  Task<void> nothing = NothingOn(other.reactor());

  ASSERT_TRUE(reactor.RunUntil([&] { return task.done() && nothing.done(); }));
  EXPECT_EQ(task.await_resume(), 9);
}

Task<void> CallMany(Reactor* target, int64_t* counter, int64_t count,
                    std::atomic<int>* finished) {
  for (int64_t i = 1; i <= count; ++i) {
    Increment function{counter};
    auto call = CallOn(target, function);
    const int64_t value = co_await call;
    SLUICE_CHECK(value == i);
  }
  finished->fetch_add(1);
}

// Both directions at once, 100,000 calls in all.
void CallBackAndForth(const ReactorOptions& options) {
  constexpr int64_t kEach = 50'000;
  TestReactorThread first(options);
  TestReactorThread second(options);
  std::array<int64_t, 2> counters{};
  std::array<Scope, 2> scopes;
  std::atomic<int> finished{0};

  first.Run([&] {
    scopes[0].Spawn(CallMany(second.reactor(), &counters[1], kEach, &finished));
  });
  second.Run([&] {
    scopes[1].Spawn(CallMany(first.reactor(), &counters[0], kEach, &finished));
  });
  while (finished < 2) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  first.Run([&] { EXPECT_EQ(counters[0], kEach); });
  second.Run([&] { EXPECT_EQ(counters[1], kEach); });
  first.Run([&] { EXPECT_EQ(scopes[0].size(), 0u); });
  second.Run([&] { EXPECT_EQ(scopes[1].size(), 0u); });
}

TEST_P(CallOnTest, AHundredThousandTimesAsleep) {
  CallBackAndForth(Options(PollMode::kEvent));
}

TEST_P(CallOnTest, AHundredThousandTimesSpinning) {
  CallBackAndForth(Options(PollMode::kHybrid));
}

struct Square {
  int value;
  int operator()() const { return value * value; }
};

Task<int> SquareOnPool(BlockingPool* pool, int value) {
  Square function{value};
  auto call = CallBlocking(pool, function);
  const int result = co_await call;
  co_return result;
}

TEST_P(CallBlockingTest, ResumesHereWithTheResult) {
  BlockingPool pool(2);
  TestReactor reactor(TestClock::kFake, Options());
  std::vector<Task<int>> tasks;
  for (int i = 0; i < 100; ++i) tasks.push_back(SquareOnPool(&pool, i));

  ASSERT_TRUE(reactor.RunUntil([&] {
    for (const Task<int>& task : tasks) {
      if (!task.done()) return false;
    }
    return true;
  }));

  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(tasks[static_cast<size_t>(i)].await_resume(), i * i);
  }
}

Task<void> PassGate(Gate* gate, std::vector<int>* order, int number) {
  co_await gate->Wait();
  order->push_back(number);
}

TEST(Gate, LetsAllThroughInOrderAndStaysOpen) {
  TestReactor reactor;
  Gate gate(reactor.get());
  std::vector<int> order;
  Scope scope;
  for (int i = 0; i < 3; ++i) scope.Spawn(PassGate(&gate, &order, i));
  EXPECT_EQ(scope.size(), 3u);

  gate.Open();
  EXPECT_TRUE(order.empty());
  reactor.RunReady();
  scope.Spawn(PassGate(&gate, &order, 3));

  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(scope.size(), 0u);
}

TEST(CallOnDeathTest, OffAReactorDies) {
  EXPECT_DEATH(
      {
        Nothing function;
        auto call = CallOn(nullptr, function);
        static_cast<void>(call);
      },
      "CHECK failed: home_");
}

}  // namespace
}  // namespace sluice
