// A wait that the test ends by hand.
#pragma once

#include <coroutine>
#include <utility>

namespace sluice {

// One waiter at a time: co_await *pause; then pause->Resume().
class Pause {
 public:
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> frame) { frame_ = frame; }
  void await_resume() const noexcept {}

  bool waiting() const { return frame_ != nullptr; }
  void Resume() { std::exchange(frame_, nullptr).resume(); }

 private:
  std::coroutine_handle<> frame_;
};

}  // namespace sluice
