// The reactor: one thread, one ring, and everything that lives on it. A tick
// polls the completion queues, reaps the ring, runs messages and timers,
// resumes who is ready, rings the doorbells, submits. An idle reactor arms its
// poll sources, looks once more, and sleeps in the ring: the only place where
// it sleeps.
//
// All objects on it are made, used and destroyed on its thread, but for what
// says "Thread-safe." Lives as long as its thread runs it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <coroutine>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/clock.h"
#include "core/histogram.h"
#include "core/intrusive_list.h"
#include "core/message.h"
#include "core/ring.h"
#include "core/spin_policy.h"
#include "core/timer.h"

namespace sluice {

struct ReactorOptions {
  int index = 0;
  int cpu = -1;  // pinned to this processor; -1: where the scheduler likes
  // SCHED_FIFO at this priority, 1 to 99; 0: as the scheduler likes.
  int realtime_priority = 0;
  SpinOptions spin;
  // How long after the sources' last work they are looked at although nothing
  // announced anything: what this finds is a missed completion. Each look that
  // finds nothing makes the wait eight times longer, up to the idle one.
  absl::Duration safety_poll_busy = absl::Milliseconds(10);
  absl::Duration safety_poll_idle = absl::Seconds(1);
  // Polls, arms and then sleeps, without the look between arming and sleeping:
  // for tests, which are to show that they notice the completions lost so.
  bool arms_last = false;
  // Measures at the start what a wake-up costs here: some milliseconds.
  bool measure_wake_up = true;
  RingOptions ring;
  Clock* clock = Clock::Real();
};

// Something that is polled each tick and can wake a sleeper: the CQ engine.
class PollSource {
 public:
  virtual ~PollSource() = default;

  // Runs at most a batch of completions; returns how many.
  virtual int Poll() = 0;
  // Requests notification, on everything that is not armed yet. The reactor
  // polls once more before it sleeps. False: it has nothing that can be armed;
  // true when all of it was armed already.
  virtual bool Arm() = 0;
  // End of a tick: rings doorbells.
  virtual void Flush() = 0;
  // The reactor slept with this source armed, and nothing woke it: what the
  // next Poll finds, nobody announced.
  virtual void OnTimeout() {}
};

// Coroutines that wait for something, in arrival order.
class Waiter : public ListNode {
 public:
  std::coroutine_handle<> frame;
};

struct ReactorStats {
  uint64_t ticks = 0;
  uint64_t spins = 0;  // empty ticks that did not end in a sleep
  uint64_t sleeps = 0;
  uint64_t wake_ups = 0;     // sleeps that something ended, not their time
  uint64_t rearm_found = 0;  // work found between arming and sleeping
  uint64_t messages = 0;
  uint64_t ring_completions = 0;
  uint64_t timers = 0;
};

class Reactor {
 public:
  // On the thread that will run it.
  static absl::StatusOr<std::unique_ptr<Reactor>> Create(
      const ReactorOptions& options);
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // The reactor of this thread, null on others.
  static Reactor* Current();
  bool IsCurrent() const { return Current() == this; }

  // Runs ticks until Stop().
  void Run();
  // Thread-safe. Run() returns when it has run what was posted before.
  void Stop();
  // One tick; returns how much was done. For tests; Run() is made of these.
  int Tick();
  // Arms, looks once more and sleeps, at most `limit` (which, when it ends the
  // sleep, is no safety poll).
  void Sleep(absl::Duration limit);

  int index() const { return options_.index; }
  // The time at which this tick began.
  int64_t now_nanos() const { return now_nanos_; }
  Ring* ring() { return ring_.get(); }
  const ReactorStats& stats() const { return stats_; }

  // Both also from within a source's functions.
  void AddPollSource(PollSource* source);
  void RemovePollSource(PollSource* source);
  const SpinOptions& spin() const { return spin_.options(); }
  // Any time.
  void set_spin(const SpinOptions& spin) { spin_.set_options(spin); }
  const SpinPolicy& spin_policy() const { return spin_; }
  // From another thread's message to our waking, in nanoseconds.
  const Histogram& wake_latency() const { return wake_latency_; }

  // Thread-safe. Runs the message on this reactor's thread. The reactor lives
  // until it has run; its destructor waits for those still inside this call.
  void Post(Message* message);

  // Resumes the coroutine in this tick or the next, not in this call.
  void Schedule(Waiter* waiter) { ready_.PushBack(waiter); }

  void ArmTimer(Timer* timer, int64_t deadline_nanos) {
    timers_.Arm(timer, deadline_nanos);
  }
  void CancelTimer(Timer* timer) { timers_.Cancel(timer); }

 private:
  explicit Reactor(const ReactorOptions& options);
  absl::Status Init();
  int PollSources();
  void FlushSources();
  void RestartSafetyPolls();
  int ResumeReady();
  int64_t SleepNanos(absl::Duration limit) const;
  void Wake();
  void MeasureWakeUp();
  static void OnWakeEvent(void* context);

  const ReactorOptions options_;
  SpinPolicy spin_;
  std::unique_ptr<Ring> ring_;
  int wake_fd_ = -1;
  FdWatch* wake_watch_ = nullptr;
  std::atomic<bool> sleeping_{false};
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> woken_at_nanos_{0};  // by whom we slept for
  std::atomic<int> callers_{0};  // other threads inside Post and Stop
  Inbox inbox_;
  std::vector<PollSource*> sources_;  // null: removed, dropped by the next tick
  bool in_tick_ = false;              // the ring will be submitted
  IntrusiveList<Waiter> ready_;
  TimerHeap timers_;
  int64_t now_nanos_ = 0;
  int64_t safety_nanos_;  // the next sleep's, until a safety poll
  ReactorStats stats_;
  Histogram wake_latency_;
};

}  // namespace sluice

#define SLUICE_DCHECK_ON(reactor) SLUICE_DCHECK((reactor)->IsCurrent())
