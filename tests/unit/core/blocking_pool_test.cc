#include "core/blocking_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/test_reactor.h"

namespace sluice {
namespace {

// Waits for `gate` when there is one.
struct Work : BlockingPool::Job {
  explicit Work(Reactor* on) {
    home = on;
    run = &Done;
    work = &Do;
  }
  static void Do(BlockingPool::Job* job) {
    auto* self = static_cast<Work*>(job);
    self->thread = std::this_thread::get_id();
    self->started = true;
    while (self->gate != nullptr && !*self->gate) std::this_thread::yield();
    if (self->opens != nullptr) *self->opens = true;
    if (self->log != nullptr) self->log->push_back(self->number);
  }
  static void Done(Message* message) {
    static_cast<Work*>(static_cast<Job*>(message))->done = true;
  }

  std::atomic<bool>* gate = nullptr;
  std::atomic<bool>* opens = nullptr;
  std::vector<int>* log = nullptr;  // one thread only
  int number = 0;
  std::atomic<bool> started{false};
  std::thread::id thread;
  bool done = false;
};

TEST(BlockingPool, RunsElsewhereAndAnswersAtHome) {
  TestReactor reactor;
  BlockingPool pool(1);
  Work job(reactor.get());

  pool.Submit(&job);

  ASSERT_TRUE(reactor.RunUntil([&] { return job.done; }));
  EXPECT_NE(job.thread, std::this_thread::get_id());
}

TEST(BlockingPool, OneThreadKeepsTheOrder) {
  TestReactor reactor;
  BlockingPool pool(1);
  std::vector<int> log;
  std::vector<std::unique_ptr<Work>> jobs;
  for (int i = 0; i < 50; ++i) {
    jobs.push_back(std::make_unique<Work>(reactor.get()));
    jobs.back()->number = i;
    jobs.back()->log = &log;
    pool.Submit(jobs.back().get());
  }

  ASSERT_TRUE(reactor.RunUntil([&] { return jobs.back()->done; }));

  ASSERT_EQ(log.size(), 50u);
  EXPECT_TRUE(std::is_sorted(log.begin(), log.end()));
}

// One idle thread, two jobs at once, and the first waits for the second.
TEST(BlockingPool, ABlockedJobDoesNotHoldUpTheNext) {
  TestReactor reactor;
  BlockingPool pool(2);
  for (int i = 0; i < 100; ++i) {
    Work warm(reactor.get());
    pool.Submit(&warm);
    ASSERT_TRUE(reactor.RunUntil([&] { return warm.done; }));
    std::atomic<bool> gate{false};
    Work first(reactor.get());
    Work second(reactor.get());
    first.gate = &gate;
    second.opens = &gate;

    pool.Submit(&first);
    pool.Submit(&second);

    ASSERT_TRUE(reactor.RunUntil([&] { return first.done && second.done; }));
  }
}

TEST(BlockingPool, ItsEndWaitsForTheJobThatRuns) {
  TestReactor reactor;
  std::atomic<bool> gate{false};
  Work job(reactor.get());
  job.gate = &gate;
  std::thread opener;
  {
    BlockingPool pool(1);
    pool.Submit(&job);
    while (!job.started) std::this_thread::yield();
    opener = std::thread([&gate] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      gate = true;
    });
  }

  EXPECT_TRUE(gate);
  reactor.RunReady();
  EXPECT_TRUE(job.done);
  opener.join();
}

TEST(BlockingPoolDeathTest, DyingWithAJobQueuedDies) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        TestReactor reactor;
        std::atomic<bool> gate{false};
        Work first(reactor.get());
        Work second(reactor.get());
        first.gate = &gate;
        BlockingPool pool(1);
        pool.Submit(&first);
        pool.Submit(&second);
      },
      "CHECK failed: first_");
}

TEST(BlockingPool, OneThatWasNeverUsedEnds) { BlockingPool pool; }

}  // namespace
}  // namespace sluice
