// Task<T>: a coroutine that starts at once and runs to its first real wait.
// Awaiting a finished Task does not suspend, so a loop over finished ones
// needs no stack. Frames come from FrameSlab, on the reactor's thread; a Task
// stays on the thread that made it.
//
// Rules that g++ 12.2 imposes (style.md §7): every co_await is a statement or
// initialiser of its own, with no capturing lambda and no brace-built
// aggregate in it; no lambda is a coroutine; parameters are values or pointers
// to what outlives the frame. A Task is awaited by its parent or given to a
// Scope; destroying an unfinished one is a CHECK failure.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include "core/check.h"
#include "core/frame_slab.h"

namespace sluice {

class Scope;

namespace task_internal {

class PromiseBase {
 public:
  struct FinalAwaiter {
    bool await_ready() const noexcept { return false; }
    template <typename Promise>
    std::coroutine_handle<> await_suspend(
        std::coroutine_handle<Promise> frame) noexcept {
      return frame.promise().Finish(frame);
    }
    void await_resume() const noexcept {}
  };

  std::suspend_never initial_suspend() const noexcept { return {}; }
  FinalAwaiter final_suspend() const noexcept { return {}; }
  [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }

  static void* operator new(size_t bytes) { return FrameSlab::Allocate(bytes); }
  static void operator delete(void* frame, size_t bytes) {
    FrameSlab::Free(frame, bytes);
  }

  // Who is resumed when the task ends: the frame that awaits it, or the scope.
  std::coroutine_handle<> continuation;
  Scope* scope = nullptr;

 private:
  std::coroutine_handle<> Finish(std::coroutine_handle<> frame) noexcept;
};

template <typename T>
class Promise : public PromiseBase {
 public:
  template <typename U>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  // It returned. NOLINTNEXTLINE(bugprone-unchecked-optional-access)
  T Take() { return *std::move(value_); }

 private:
  std::optional<T> value_;
};

template <>
class Promise<void> : public PromiseBase {
 public:
  void return_void() const noexcept {}
  void Take() const noexcept {}
};

}  // namespace task_internal

template <typename T = void>
class [[nodiscard]] Task {
 public:
  class promise_type : public task_internal::Promise<T> {
   public:
    Task get_return_object() {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
  };

  Task(Task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (!frame_) return;
    SLUICE_CHECK(frame_.done());
    frame_.destroy();
  }

  bool done() const {
    SLUICE_DCHECK(frame_);
    return frame_.done();
  }

  // Awaiting: at most once, by one frame.
  bool await_ready() const noexcept { return frame_.done(); }
  void await_suspend(std::coroutine_handle<> parent) noexcept {
    SLUICE_DCHECK(!frame_.promise().continuation);
    frame_.promise().continuation = parent;
  }
  T await_resume() { return frame_.promise().Take(); }

 private:
  friend class Scope;

  explicit Task(std::coroutine_handle<promise_type> frame) : frame_(frame) {}

  std::coroutine_handle<promise_type> frame_;
};

// Owns tasks that nobody awaits one by one. Close() waits for all of them.
// Home: one reactor. Bound: the callers'; the count is `size()`.
class Scope {
 public:
  Scope() = default;
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() { SLUICE_CHECK(size_ == 0); }

  // Takes over a task; its frame dies when it ends.
  void Spawn(Task<void> task) {
    if (task.done()) return;
    task.frame_.promise().scope = this;
    ++size_;
    task.frame_ = nullptr;
  }

  size_t size() const { return size_; }

  // co_await scope.Close(): suspends until every task has ended. One waiter.
  // Tasks may still be spawned by those that run.
  struct Closer {
    Scope* scope;
    bool await_ready() const noexcept { return scope->size_ == 0; }
    void await_suspend(std::coroutine_handle<> waiter) noexcept {
      SLUICE_CHECK(!scope->closer_);
      scope->closer_ = waiter;
    }
    void await_resume() const noexcept {}
  };
  Closer Close() { return Closer{this}; }

 private:
  friend class task_internal::PromiseBase;

  // One task ended. Returns who is to be resumed, if anybody.
  std::coroutine_handle<> TaskEnded() {
    SLUICE_CHECK(size_ > 0);
    if (--size_ > 0 || !closer_) return std::noop_coroutine();
    return std::exchange(closer_, nullptr);
  }

  size_t size_ = 0;
  std::coroutine_handle<> closer_;
};

namespace task_internal {

inline std::coroutine_handle<> PromiseBase::Finish(
    std::coroutine_handle<> frame) noexcept {
  if (scope != nullptr) {
    Scope* owner = scope;
    frame.destroy();  // *this is gone
    return owner->TaskEnded();
  }
  if (continuation) return continuation;
  return std::noop_coroutine();
}

}  // namespace task_internal
}  // namespace sluice
