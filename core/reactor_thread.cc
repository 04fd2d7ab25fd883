#include "core/reactor_thread.h"

#include <pthread.h>
#include <signal.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<ReactorThread>> ReactorThread::Start(
    const ReactorOptions& options) {
  std::unique_ptr<ReactorThread> made(new ReactorThread);
  std::promise<absl::Status> started;
  std::future<absl::Status> result = started.get_future();
  ReactorThread* self = made.get();
  made->thread_ = std::thread([self, options, &started] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    const std::string name = absl::StrCat("reactor-", options.index);
    pthread_setname_np(pthread_self(), name.c_str());
    absl::StatusOr<std::unique_ptr<Reactor>> reactor = Reactor::Create(options);
    if (!reactor.ok()) {
      started.set_value(reactor.status());
      return;
    }
    self->reactor_ = reactor->get();
    started.set_value(absl::OkStatus());
    (*reactor)->Run();
  });
  absl::Status status = result.get();
  if (!status.ok()) return status;
  return made;
}

ReactorThread::~ReactorThread() {
  if (!thread_.joinable()) return;
  if (reactor_ != nullptr) reactor_->Stop();
  thread_.join();
}

}  // namespace sluice
