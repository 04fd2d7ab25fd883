// What a coroutine on a reactor can wait for: ring operations, time, another
// reactor, a thread that may block. Each is an object in the waiting frame,
// named in a statement of its own and awaited in the next.
#pragma once

#include <coroutine>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/time/time.h"
#include "core/blocking_job.h"
#include "core/blocking_pool.h"
#include "core/check.h"
#include "core/message.h"
#include "core/reactor.h"

namespace sluice {

// One io_uring operation:
//   RingOp op(reactor);
//   io_uring_prep_fsync(op.sqe(), …);
//   int32_t result = co_await op;   // as cqe->res
class RingOp final : public RingRequest {
 public:
  explicit RingOp(Reactor* reactor) : ring_(reactor->ring()) {}

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> frame) {
    frame_ = frame;
    ring_->Start(this);
  }
  int32_t await_resume() const noexcept { return result_; }

 private:
  void OnCompletion(int32_t result, uint32_t) override {
    result_ = result;
    frame_.resume();
  }

  Ring* ring_;
  std::coroutine_handle<> frame_;
  int32_t result_ = 0;
};

// co_await SleepFor(reactor, duration);
class SleepFor {
 public:
  SleepFor(Reactor* reactor, absl::Duration duration)
      : reactor_(reactor),
        timer_(&Fire, this),
        nanos_(absl::ToInt64Nanoseconds(duration)) {}  // saturates

  bool await_ready() const noexcept { return nanos_ <= 0; }
  void await_suspend(std::coroutine_handle<> frame) {
    frame_ = frame;
    const int64_t now = reactor_->now_nanos();
    const bool ends = nanos_ < TimerHeap::kNever - now;
    reactor_->ArmTimer(&timer_, ends ? now + nanos_ : TimerHeap::kNever);
  }
  void await_resume() const noexcept {}

 private:
  static void Fire(void* self) {
    static_cast<SleepFor*>(self)->frame_.resume();
  }

  Reactor* reactor_;
  Timer timer_;
  int64_t nanos_;
  std::coroutine_handle<> frame_;
};

namespace async_internal {

// Holds what a function returned, void included.
template <typename R>
struct ResultBox {
  template <typename F>
  void Run(F& function) {
    value.emplace(function());
  }
  // Run has been called. NOLINTNEXTLINE(bugprone-unchecked-optional-access)
  R Take() { return *std::move(value); }
  std::optional<R> value;
};

template <>
struct ResultBox<void> {
  template <typename F>
  void Run(F& function) {
    function();
  }
  void Take() {}
};

}  // namespace async_internal

// Runs `function` on another reactor's thread and resumes here with its result:
//   auto call = CallOn(other, function);   // a callable named before
//   auto result = co_await call;
// On its own reactor it runs at once. The function must not wait.
template <typename F>
class CallOn : private Message {
 public:
  using Result = std::invoke_result_t<F&>;

  CallOn(Reactor* target, F function)
      : home_(Reactor::Current()),
        target_(target),
        function_(std::move(function)) {
    SLUICE_CHECK(home_ != nullptr);
  }
  CallOn(const CallOn&) = delete;
  CallOn& operator=(const CallOn&) = delete;

  bool await_ready() {
    if (target_ != home_) return false;
    result_.Run(function_);
    return true;
  }
  void await_suspend(std::coroutine_handle<> frame) {
    frame_ = frame;
    run = &RunOnTarget;
    target_->Post(this);
  }
  Result await_resume() { return result_.Take(); }

 private:
  static void RunOnTarget(Message* message) {
    auto* self = static_cast<CallOn*>(message);
    self->result_.Run(self->function_);
    self->run = &ResumeAtHome;
    self->home_->Post(self);
  }
  static void ResumeAtHome(Message* message) {
    static_cast<CallOn*>(message)->frame_.resume();
  }

  Reactor* home_;
  Reactor* target_;
  F function_;
  std::coroutine_handle<> frame_;
  async_internal::ResultBox<Result> result_;
};

// Runs `function` on a thread of the pool, where it may block, and resumes here
// with its result. Used as CallOn.
template <typename F>
class CallBlocking : private BlockingJob, private Message {
 public:
  using Result = std::invoke_result_t<F&>;

  CallBlocking(BlockingPool* pool, F function)
      : pool_(pool), home_(Reactor::Current()), function_(std::move(function)) {
    work = &Work;
    run = &ResumeAtHome;
    SLUICE_CHECK(home_ != nullptr);
  }
  CallBlocking(const CallBlocking&) = delete;
  CallBlocking& operator=(const CallBlocking&) = delete;

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> frame) {
    frame_ = frame;
    pool_->Submit(this);
  }
  Result await_resume() { return result_.Take(); }

 private:
  static void Work(BlockingJob* job) {
    auto* self = static_cast<CallBlocking*>(job);
    self->result_.Run(self->function_);
    self->home_->Post(self);
  }
  static void ResumeAtHome(Message* message) {
    static_cast<CallBlocking*>(message)->frame_.resume();
  }

  BlockingPool* pool_;
  Reactor* home_;
  F function_;
  std::coroutine_handle<> frame_;
  async_internal::ResultBox<Result> result_;
};

// Waits until another coroutine of the same reactor opens the gate; stays open.
class Gate {
 public:
  explicit Gate(Reactor* reactor) : reactor_(reactor) {}

  void Open() {
    open_ = true;
    while (Waiter* waiter = waiting_.PopFront()) reactor_->Schedule(waiter);
  }
  bool open() const { return open_; }

  class Pass : public Waiter {
   public:
    explicit Pass(Gate* gate) : gate_(gate) {}
    bool await_ready() const noexcept { return gate_->open_; }
    void await_suspend(std::coroutine_handle<> handle) {
      frame = handle;
      gate_->waiting_.PushBack(this);
    }
    void await_resume() const noexcept {}

   private:
    Gate* gate_;
  };
  Pass Wait() { return Pass(this); }

 private:
  Reactor* reactor_;
  bool open_ = false;
  IntrusiveList<Waiter> waiting_;
};

}  // namespace sluice
