// A thread that runs a reactor, and a way for a thread that is none to have
// work done there and wait for it: program starts, ends, tests.
#pragma once

#include <future>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "core/message.h"
#include "core/reactor.h"
#include "core/task.h"

namespace sluice {

class ReactorThread {
 public:
  // Starts the thread, `reactor-N` by its index, and the reactor on it. Errors:
  // Reactor::Create's.
  static absl::StatusOr<std::unique_ptr<ReactorThread>> Start(
      const ReactorOptions& options);
  // Stops and joins.
  ~ReactorThread();
  ReactorThread(const ReactorThread&) = delete;
  ReactorThread& operator=(const ReactorThread&) = delete;

  Reactor* reactor() const { return reactor_; }

  // Runs `function` there and returns what it returned. Blocks the caller,
  // which is no reactor.
  template <typename F>
  auto Run(F function) {
    std::packaged_task<std::invoke_result_t<F&>()> task(std::move(function));
    auto result = task.get_future();
    Call call(&task);
    reactor_->Post(&call);
    return result.get();
  }

  // The same for a function that returns a Task: waits for the task's end.
  template <typename F>
  auto RunTask(F function) {
    using T = decltype(function().await_resume());
    std::promise<T> promise;
    auto result = promise.get_future();
    Scope scope;
    Run([&] { scope.Spawn(Fulfil(&function, &promise)); });
    if constexpr (std::is_void_v<T>) {
      result.get();
      Run([] {});  // the frame has been left
    } else {
      T value = result.get();
      Run([] {});
      return value;
    }
  }

 private:
  template <typename Packaged>
  struct Call : Message {
    explicit Call(Packaged* packaged) : task(packaged) {
      run = [](Message* message) { (*static_cast<Call*>(message)->task)(); };
    }
    Packaged* task;
  };

  template <typename F, typename T>
  static Task<void> Fulfil(F* function, std::promise<T>* promise) {
    if constexpr (std::is_void_v<T>) {
      co_await (*function)();
      promise->set_value();
    } else {
      T value = co_await (*function)();
      promise->set_value(std::move(value));
    }
  }

  ReactorThread() = default;

  Reactor* reactor_ = nullptr;
  std::thread thread_;
};

}  // namespace sluice
