#include "core/timer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <memory>
#include <random>
#include <vector>

namespace sluice {
namespace {

// Notes when it fired; arms itself again while `repeats` lasts.
struct Alarm {
  Alarm(TimerHeap* on, std::vector<int64_t>* fired)
      : heap(on), log(fired), timer(&Alarm::Fire, this) {}

  static void Fire(void* context) {
    auto* self = static_cast<Alarm*>(context);
    self->log->push_back(self->timer.deadline_nanos());
    if (self->repeats-- <= 0) return;
    self->heap->Arm(&self->timer, self->timer.deadline_nanos() + self->period);
  }

  TimerHeap* heap;
  std::vector<int64_t>* log;
  Timer timer;
  int repeats = 0;
  int64_t period = 0;
};

TEST(TimerHeap, FiresInOrder) {
  TimerHeap heap;
  std::vector<int64_t> log;
  Alarm a(&heap, &log);
  Alarm b(&heap, &log);
  Alarm c(&heap, &log);
  heap.Arm(&a.timer, 30);
  heap.Arm(&b.timer, 10);
  heap.Arm(&c.timer, 20);

  EXPECT_EQ(heap.next_deadline_nanos(), 10);
  EXPECT_EQ(heap.RunDue(20, INT_MAX), 2);
  EXPECT_EQ(log, (std::vector<int64_t>{10, 20}));
  EXPECT_EQ(heap.RunDue(30, INT_MAX), 1);

  EXPECT_TRUE(heap.empty());
  EXPECT_EQ(heap.next_deadline_nanos(), TimerHeap::kNever);
}

TEST(TimerHeap, RunsAtMostTheLimit) {
  TimerHeap heap;
  std::vector<int64_t> log;
  std::vector<std::unique_ptr<Alarm>> alarms;
  for (int i = 0; i < 10; ++i) {
    alarms.push_back(std::make_unique<Alarm>(&heap, &log));
    heap.Arm(&alarms.back()->timer, i);
  }

  EXPECT_EQ(heap.RunDue(100, 4), 4);
  EXPECT_EQ(heap.RunDue(100, 4), 4);
  EXPECT_EQ(heap.RunDue(100, 4), 2);
}

TEST(TimerHeap, ArmsAgainInItsCallback) {
  TimerHeap heap;
  std::vector<int64_t> log;
  Alarm alarm(&heap, &log);
  alarm.repeats = 3;
  alarm.period = 10;
  heap.Arm(&alarm.timer, 0);

  EXPECT_EQ(heap.RunDue(15, INT_MAX), 2);
  EXPECT_EQ(heap.RunDue(100, INT_MAX), 2);

  EXPECT_EQ(log, (std::vector<int64_t>{0, 10, 20, 30}));
}

TEST(TimerHeap, ACallbackThatIsAlwaysDueStopsAtTheLimit) {
  TimerHeap heap;
  std::vector<int64_t> log;
  Alarm alarm(&heap, &log);
  alarm.repeats = INT_MAX;
  heap.Arm(&alarm.timer, 0);

  EXPECT_EQ(heap.RunDue(0, 64), 64);

  heap.Cancel(&alarm.timer);
}

TEST(TimerHeap, ArmMovesAnArmedTimer) {
  TimerHeap heap;
  std::vector<int64_t> log;
  Alarm alarm(&heap, &log);
  heap.Arm(&alarm.timer, 10);
  heap.Arm(&alarm.timer, 50);

  EXPECT_EQ(heap.RunDue(49, INT_MAX), 0);
  EXPECT_EQ(heap.RunDue(50, INT_MAX), 1);
}

TEST(TimerHeap, RandomArmsAndCancelsKeepTheOrder) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  TimerHeap heap;
  std::vector<int64_t> log;
  std::vector<std::unique_ptr<Alarm>> alarms;
  for (int i = 0; i < 500; ++i) {
    alarms.push_back(std::make_unique<Alarm>(&heap, &log));
  }

  for (int round = 0; round < 5000; ++round) {
    Timer* timer = &alarms[random() % alarms.size()]->timer;
    if (random() % 3 == 0) {
      heap.Cancel(timer);
    } else {
      heap.Arm(timer, static_cast<int64_t>(random() % 1000));
    }
  }
  size_t armed = 0;
  for (const auto& alarm : alarms) armed += alarm->timer.armed() ? 1 : 0;
  heap.RunDue(1000, INT_MAX);

  EXPECT_EQ(log.size(), armed);
  EXPECT_TRUE(std::is_sorted(log.begin(), log.end()));
}

struct Canceller {
  static void Fire(void* context) {
    auto* self = static_cast<Canceller*>(context);
    self->heap->Cancel(self->victim);
  }
  TimerHeap* heap;
  Timer* victim;
};

TEST(TimerHeap, ACallbackMayCancelAnotherThatIsDue) {
  TimerHeap heap;
  std::vector<int64_t> log;
  Alarm victim(&heap, &log);
  Canceller canceller{&heap, &victim.timer};
  Timer timer(&Canceller::Fire, &canceller);
  heap.Arm(&timer, 1);
  heap.Arm(&victim.timer, 2);

  EXPECT_EQ(heap.RunDue(10, INT_MAX), 1);

  EXPECT_TRUE(log.empty());
}

TEST(TimerDeathTest, DestroyingAnArmedOneDies) {
  TimerHeap heap;
  EXPECT_DEATH(
      {
        Timer timer(&Canceller::Fire, nullptr);
        heap.Arm(&timer, 1);
      },
      "CHECK failed: !armed");
}

}  // namespace
}  // namespace sluice
