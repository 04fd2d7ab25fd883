#include "core/signals.h"

#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"

namespace sluice {
namespace {

sigset_t SetOf(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : signals) sigaddset(&set, signal);
  return set;
}

}  // namespace

void BlockSignals(std::initializer_list<int> signals) {
  const sigset_t set = SetOf(signals);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

absl::StatusOr<std::unique_ptr<SignalWatch>> SignalWatch::Create(
    Reactor* reactor, std::initializer_list<int> signals, Handler handler,
    void* context) {
  const sigset_t set = SetOf(signals);
  const int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, "signalfd");
  return std::unique_ptr<SignalWatch>(
      new SignalWatch(reactor, fd, handler, context));
}

SignalWatch::SignalWatch(Reactor* reactor, int fd, Handler handler,
                         void* context)
    : reactor_(reactor), fd_(fd), handler_(handler), context_(context) {
  watch_ = reactor_->ring()->Watch(fd_, &OnReadable, this);
}

SignalWatch::~SignalWatch() {
  reactor_->ring()->Unwatch(watch_);
  close(fd_);
}

void SignalWatch::OnReadable(void* context) {
  auto* self = static_cast<SignalWatch*>(context);
  signalfd_siginfo info;
  while (read(self->fd_, &info, sizeof(info)) == sizeof(info)) {
    self->handler_(self->context_, static_cast<int>(info.ssi_signo));
  }
}

}  // namespace sluice
