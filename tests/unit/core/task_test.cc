#include "core/task.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "core/frame_slab.h"
#include "tests/unit/core/pause.h"

namespace sluice {
namespace {

// Counts how often it is made and destroyed.
class Counted {
 public:
  explicit Counted(int* alive) : alive_(alive) { ++*alive_; }
  Counted(Counted&& other) noexcept : alive_(other.alive_) { ++*alive_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --*alive_; }

 private:
  int* alive_;
};

struct Options {
  int depth = 0;
  std::string name;
};

Counted MakeCounted(int* alive) { return Counted(alive); }

Task<int> Value(int value) { co_return value; }

Task<void> WaitOn(Pause* pause, int* step) {
  *step = 1;
  co_await *pause;
  *step = 2;
}

Task<int> WaitThenValue(Pause* pause, int value) {
  co_await *pause;
  co_return value;
}

Task<void> Hold(Counted counted, Pause* pause) {
  static_cast<void>(counted);
  co_await *pause;
}

Task<int> Depth(Options options) {
  co_return options.depth + static_cast<int>(options.name.size());
}

Task<int64_t> SumOfFinished(int64_t count) {
  int64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int value = co_await Value(1);
    sum += value;
  }
  co_return sum;
}

Task<int64_t> SumOfSuspended(Pause* pause, int64_t count) {
  int64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int value = co_await WaitThenValue(pause, 1);
    sum += value;
  }
  co_return sum;
}

// Rule 1.
TEST(Task, StartsAtOnceAndRunsToItsFirstWait) {
  Pause pause;
  int step = 0;

  Task<void> task = WaitOn(&pause, &step);

  EXPECT_EQ(step, 1);
  EXPECT_FALSE(task.done());
  pause.Resume();
  EXPECT_EQ(step, 2);
  EXPECT_TRUE(task.done());
}

TEST(Task, AFinishedOneNeverSuspendsItsAwaiter) {
  Task<int64_t> task = SumOfFinished(3);

  ASSERT_TRUE(task.done());
  EXPECT_EQ(task.await_resume(), 3);
}

TEST(Task, TwoMillionFinishedOnesNeedNoStack) {
  Task<int64_t> task = SumOfFinished(2'000'000);

  ASSERT_TRUE(task.done());
  EXPECT_EQ(task.await_resume(), 2'000'000);
}

TEST(Task, TwoMillionSuspendedOnesNeedNoStack) {
  Pause pause;

  Task<int64_t> task = SumOfSuspended(&pause, 2'000'000);
  while (!task.done()) pause.Resume();

  EXPECT_EQ(task.await_resume(), 2'000'000);
}

Task<int> Nest(Pause* pause, int depth) {
  if (depth == 0) {
    co_await *pause;
    co_return 0;
  }
  const int below = co_await Nest(pause, depth - 1);
  co_return below + 1;
}

TEST(Task, ResumesThroughAllItsParents) {
  Pause pause;

  Task<int> task = Nest(&pause, 100);
  ASSERT_FALSE(task.done());
  pause.Resume();

  ASSERT_TRUE(task.done());
  EXPECT_EQ(task.await_resume(), 100);
}

Task<std::unique_ptr<int>> MoveOnly(int value) {
  auto owned = std::make_unique<int>(value);
  co_return owned;
}

Task<int> AwaitMoveOnly() {
  std::unique_ptr<int> owned = co_await MoveOnly(7);
  co_return *owned;
}

TEST(Task, CarriesMoveOnlyResults) {
  Task<int> task = AwaitMoveOnly();

  EXPECT_EQ(task.await_resume(), 7);
}

TEST(Task, CanBeMovedWhileItWaits) {
  Pause pause;
  std::vector<Task<int>> tasks;
  tasks.push_back(WaitThenValue(&pause, 5));
  Task<int> moved = std::move(tasks.front());
  tasks.clear();

  pause.Resume();

  EXPECT_EQ(moved.await_resume(), 5);
}

// Rule 3: what may stand in an awaiting statement dies once.
Task<void> AwaitWithFunctionResult(int* alive, Pause* pause) {
  co_await Hold(MakeCounted(alive), pause);
}

Task<void> AwaitWithTemporary(int* alive, Pause* pause) {
  co_await Hold(Counted(alive), pause);
}

Task<int> AwaitWithNamedAggregate() {
  Options options{.depth = 3, .name = "a string that is not short at all"};
  const int depth = co_await Depth(std::move(options));
  co_return depth;
}

TEST(Task, FunctionResultsInAnAwaitingStatementDieOnce) {
  int alive = 0;
  Pause pause;

  Task<void> task = AwaitWithFunctionResult(&alive, &pause);
  EXPECT_GT(alive, 0);
  pause.Resume();

  EXPECT_TRUE(task.done());
  EXPECT_EQ(alive, 0);
}

TEST(Task, ConstructedTemporariesInAnAwaitingStatementDieOnce) {
  int alive = 0;
  Pause pause;

  Task<void> task = AwaitWithTemporary(&alive, &pause);
  EXPECT_GT(alive, 0);
  pause.Resume();

  EXPECT_TRUE(task.done());
  EXPECT_EQ(alive, 0);
}

TEST(Task, AggregatesAreNamedInTheStatementBefore) {
  Task<int> task = AwaitWithNamedAggregate();

  EXPECT_EQ(task.await_resume(), 36);
}

// Rule 4.
TEST(Task, ParametersLiveInTheFrameUntilItDies) {
  int alive = 0;
  Pause pause;
  {
    Task<void> task = Hold(Counted(&alive), &pause);
    EXPECT_EQ(alive, 1);
    pause.Resume();
    EXPECT_TRUE(task.done());
  }

  EXPECT_EQ(alive, 0);
}

// Rule 5.
TEST(TaskDeathTest, DestroyingAnUnfinishedOneDies) {
  Pause pause;
  int step = 0;

  EXPECT_DEATH({ Task<void> task = WaitOn(&pause, &step); },
               "CHECK failed: frame_.done");
}

// Rule 7.
Task<void> BracesThenWait(int* alive, Pause* pause) {
  { Counted counted(alive); }
  co_await *pause;
}

TEST(Task, BracesEndADestructorBeforeTheNextAwait) {
  int alive = 0;
  Pause pause;

  Task<void> task = BracesThenWait(&alive, &pause);

  EXPECT_EQ(alive, 0);
  pause.Resume();
}

// Rule 8.
TEST(Task, FramesComeFromTheSlab) {
  const FrameSlab::Stats before = FrameSlab::ThreadStats();
  Pause pause;
  {
    Task<int> task = WaitThenValue(&pause, 1);
    EXPECT_EQ(FrameSlab::ThreadStats().live_frames, before.live_frames + 1);
    pause.Resume();
  }

  EXPECT_EQ(FrameSlab::ThreadStats().live_frames, before.live_frames);
  EXPECT_EQ(FrameSlab::ThreadStats().oversized, before.oversized);
}

TEST(Task, PrintsTheLargestFrame) {
  Pause pause;
  Task<int64_t> task = SumOfSuspended(&pause, 1);
  pause.Resume();
  Task<int> aggregate = AwaitWithNamedAggregate();

  const size_t largest = FrameSlab::ThreadStats().largest_bytes;

  std::printf("largest frame in this test: %zu bytes\n", largest);
  RecordProperty("largest_frame_bytes", static_cast<int>(largest));
  EXPECT_GT(largest, 0u);
  EXPECT_LE(largest, 1024u);
}

Task<size_t> LargeFrame(Pause* pause) {
  std::array<char, 8192> local{};
  local[100] = 1;
  co_await *pause;
  co_return local.size() + static_cast<size_t>(local[100]);
}

TEST(Task, AFrameLargerThanAnyClassComesFromTheHeap) {
  const uint64_t before = FrameSlab::ThreadStats().oversized;
  Pause pause;

  Task<size_t> task = LargeFrame(&pause);
  pause.Resume();

  EXPECT_EQ(task.await_resume(), 8193u);
  EXPECT_EQ(FrameSlab::ThreadStats().oversized, before + 1);
}

// Style §6: nothing is thrown, and what is ends the program.
Task<void> Throws() {
  throw 1;
  co_return;
}

TEST(TaskDeathTest, AnExceptionTerminates) {
  EXPECT_DEATH({ Task<void> task = Throws(); }, "");
}

}  // namespace
}  // namespace sluice
