#include "core/blocking_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

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

// That the thread may run on.
int ProcessorCount() {
  cpu_set_t set;
  SLUICE_CHECK(sched_getaffinity(0, sizeof(set), &set) == 0);
  return CPU_COUNT(&set);
}

// Waits for `gate` when there is one.
struct Work : BlockingJob, Message {
  explicit Work(Reactor* on) : home(on) {
    run = &Done;
    work = &Do;
  }
  static void Do(BlockingJob* job) {
    auto* self = static_cast<Work*>(job);
    self->thread = std::this_thread::get_id();
    self->started = true;
    while (self->gate != nullptr && !*self->gate) std::this_thread::yield();
    if (self->opens != nullptr) *self->opens = true;
    if (self->log != nullptr) self->log->push_back(self->number);
    self->processors = ProcessorCount();
    self->home->Post(self);
  }
  static void Done(Message* message) {
    static_cast<Work*>(message)->done = true;
  }

  Reactor* home;
  std::atomic<bool>* gate = nullptr;
  std::atomic<bool>* opens = nullptr;
  std::vector<int>* log = nullptr;  // one thread only
  int number = 0;
  std::atomic<bool> started{false};
  std::thread::id thread;
  int processors = 0;
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

TEST(BlockingPool, WhatNoThreadHasBegunIsTakenBack) {
  TestReactor reactor;
  BlockingPool pool(1);
  std::atomic<bool> gate{false};
  Work running(reactor.get());
  Work queued(reactor.get());
  Work last(reactor.get());
  running.gate = &gate;
  pool.Submit(&running);
  pool.Submit(&queued);
  pool.Submit(&last);
  while (!running.started) std::this_thread::yield();

  EXPECT_FALSE(pool.Withdraw(&running));
  EXPECT_TRUE(pool.Withdraw(&queued));
  EXPECT_FALSE(pool.Withdraw(&queued));
  gate = true;

  ASSERT_TRUE(reactor.RunUntil([&] { return last.done; }));
  EXPECT_TRUE(running.done);
  EXPECT_FALSE(queued.started);
  EXPECT_FALSE(pool.Withdraw(&last));
}

// A pinned reactor's helpers do not share its processor.
TEST(BlockingPool, ItsThreadsAreNotPinnedAsTheirStarterIs) {
  TestReactor reactor;
  BlockingPool pool(1);
  Work job(reactor.get());

  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(sched_getcpu()), &one);
    SLUICE_CHECK(sched_setaffinity(0, sizeof(one), &one) == 0);
    pool.Submit(&job);
  }).join();

  ASSERT_TRUE(reactor.RunUntil([&] { return job.done; }));
  EXPECT_EQ(job.processors, ProcessorCount());
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
      "CHECK failed: queue_");
}

TEST(BlockingPool, OneThatWasNeverUsedEnds) { BlockingPool pool; }

}  // namespace
}  // namespace sluice
