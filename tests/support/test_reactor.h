// Reactors for tests. TestReactor lives on the test's thread and moves only
// when the test says so; TestReactorThread runs one on a thread of its own.
//
//   TestReactor reactor;
//   Task<> task = Work(reactor.get());
//   ASSERT_TRUE(reactor.RunUntil([&] { return task.done(); }));
#pragma once

#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/reactor.h"
#include "core/reactor_thread.h"

namespace sluice {

enum class TestClock { kFake, kReal };

// Declared before what lives on it: it must outlive all of that.
class TestReactor {
 public:
  explicit TestReactor(TestClock clock = TestClock::kFake,
                       ReactorOptions options = {}) {
    if (clock == TestClock::kFake) options.clock = &clock_;
    options.measure_wake_up = false;
    auto reactor = Reactor::Create(options);
    SLUICE_CHECK(reactor.ok());
    reactor_ = *std::move(reactor);
  }

  Reactor* get() { return reactor_.get(); }
  Reactor* operator->() { return reactor_.get(); }
  FakeClock* clock() { return &clock_; }

  // Ticks until pred() holds; a tick that does nothing is followed by a sleep
  // in the ring of 1 ms at most. False when `steps_max` ticks did not get
  // there.
  template <typename Pred>
  [[nodiscard]] bool RunUntil(Pred pred, int steps_max = 100'000) {
    for (int step = 0; step < steps_max; ++step) {
      if (pred()) return true;
      if (reactor_->Tick() == 0) reactor_->Sleep(absl::Milliseconds(1));
    }
    return pred();
  }

  // Ticks until one does nothing; never sleeps.
  void RunReady(int steps_max = 100'000) {
    for (int step = 0; step < steps_max; ++step) {
      if (reactor_->Tick() == 0) return;
    }
  }

  // Moves the fake clock, then runs what became due.
  void Advance(absl::Duration duration) {
    clock_.Advance(absl::ToInt64Nanoseconds(duration));
    RunReady();
  }

 private:
  FakeClock clock_;
  std::unique_ptr<Reactor> reactor_;
};

// core's ReactorThread, for a test: one that cannot start ends the test.
class TestReactorThread {
 public:
  explicit TestReactorThread(const ReactorOptions& options = {}) {
    auto thread = ReactorThread::Start(options);
    SLUICE_CHECK(thread.ok());
    thread_ = *std::move(thread);
  }

  Reactor* reactor() { return thread_->reactor(); }

  // Runs function() there and waits for it, blocking this thread.
  template <typename F>
  auto Run(F function) {
    return thread_->Run(std::move(function));
  }
  // The same for a function that returns a Task.
  template <typename F>
  auto RunTask(F function) {
    return thread_->RunTask(std::move(function));
  }

 private:
  std::unique_ptr<ReactorThread> thread_;
};

}  // namespace sluice
