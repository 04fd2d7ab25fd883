// Signals as events of a reactor, through a signalfd.
#pragma once

#include <initializer_list>
#include <memory>

#include "absl/status/statusor.h"
#include "core/reactor.h"

namespace sluice {

// Blocks the signals for this thread and those it starts: call it in main
// before any thread exists.
void BlockSignals(std::initializer_list<int> signals);

class SignalWatch {
 public:
  using Handler = void (*)(void* context, int signal);

  // The signals must be blocked. On the reactor's thread. The handler must not
  // destroy the watch.
  static absl::StatusOr<std::unique_ptr<SignalWatch>> Create(
      Reactor* reactor, std::initializer_list<int> signals, Handler handler,
      void* context);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  SignalWatch(Reactor* reactor, int fd, Handler handler, void* context);
  static void OnReadable(void* context);

  Reactor* reactor_;
  int fd_;
  Handler handler_;
  void* context_;
  FdWatch* watch_;
};

}  // namespace sluice
