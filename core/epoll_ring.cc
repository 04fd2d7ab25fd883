#include "core/epoll_ring.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/file_call.h"

namespace sluice {

// Level-triggered: what a handler leaves is announced again. Only one that has
// nothing to read any more, but a hang-up or an error for good, is changed to
// edges, or its owner would be told in every tick until it lets go.
class EpollRing::Watched final : public FdWatch {
 public:
  Watched(int fd, Handler handler, void* context)
      : FdWatch(fd, handler, context) {}

  void Control(int epoll_fd, int operation, uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.ptr = this;
    SLUICE_CHECK(epoll_ctl(epoll_fd, operation, fd_, &event) == 0);
  }
  void OnEvent(int epoll_fd, uint32_t events) {
    if ((events & EPOLLIN) == 0 && !hung_up_) {
      hung_up_ = true;
      Control(epoll_fd, EPOLL_CTL_MOD, EPOLLIN | EPOLLET);
    }
    handler_(context_);
  }

 private:
  bool hung_up_ = false;
};

absl::StatusOr<std::unique_ptr<EpollRing>> EpollRing::Create(
    const RingOptions& options) {
  std::unique_ptr<EpollRing> ring(new EpollRing);
  absl::Status status = ring->Init(options);
  if (!status.ok()) return status;
  return ring;
}

absl::Status EpollRing::Init(const RingOptions& options) {
  SLUICE_CHECK(options.completions > 2 * kReserve);
  SLUICE_CHECK(options.threads > 0);
  limit_ = options.completions - kReserve;
  pool_ = std::make_unique<BlockingPool>(options.threads);
  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd_ < 0) return absl::ErrnoToStatus(errno, "epoll_create1");
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd_ < 0) return absl::ErrnoToStatus(errno, "eventfd");
  epoll_event woken{};
  woken.events = EPOLLIN | EPOLLET;
  SLUICE_CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, wake_fd_, &woken) == 0);
  return absl::OkStatus();
}

EpollRing::~EpollRing() {
  Drain();
  pool_ = nullptr;  // a thread may still be about to wake us
  if (wake_fd_ >= 0) close(wake_fd_);
  if (epoll_fd_ >= 0) close(epoll_fd_);
}

void EpollRing::Push(RingRequest* request) {
  request->cancelled_.store(false, std::memory_order_relaxed);
  if (request->sqe_.opcode == IORING_OP_NOP) {
    request->result_ = 0;
    reaped_.PushBack(request);
    return;
  }
  request->sqe_.user_data = reinterpret_cast<uint64_t>(this);
  request->work = &RunOnThread;
  pool_->Submit(request);
}

bool EpollRing::Withdraw(RingRequest* request) {
  if (pool_->Withdraw(request)) return true;
  request->cancelled_.store(true, std::memory_order_relaxed);
  return false;
}

void EpollRing::RunOnThread(BlockingJob* job) {
  auto* request = static_cast<RingRequest*>(job);
  reinterpret_cast<EpollRing*>(request->sqe_.user_data)->OnRun(request);
}

void EpollRing::OnRun(RingRequest* request) {
  request->result_ = RunFileCall(request->sqe_, request->cancelled_);
  bool wake = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    finished_.PushBack(request);
    wake = sleeping_;
    sleeping_ = false;
  }
  if (!wake) return;
  const uint64_t one = 1;
  SLUICE_CHECK(write(wake_fd_, &one, sizeof(one)) == sizeof(one));
}

FdWatch* EpollRing::Watch(int fd, FdWatch::Handler handler, void* context) {
  auto* watch = new Watched(fd, handler, context);
  watch->Control(epoll_fd_, EPOLL_CTL_ADD, EPOLLIN);
  ++watches_;
  return watch;
}

void EpollRing::Unwatch(FdWatch* unwatched) {
  auto* watch = static_cast<Watched*>(unwatched);
  watch->Control(epoll_fd_, EPOLL_CTL_DEL, 0);
  for (size_t i = events_begin_; i < events_end_; ++i) {
    if (events_[i].data.ptr == watch) events_[i].data.ptr = nullptr;
  }
  SLUICE_CHECK(watches_ > 0);
  --watches_;
  delete watch;
}

int EpollRing::Reap(int limit) {
  int reaped = ReapEvents(limit);
  reaped += ReapCancelled(limit - reaped);
  reaped += ReapFinished(limit - reaped);
  return reaped;
}

int EpollRing::ReapEvents(int limit) {
  if (events_begin_ == events_end_) FetchEvents();
  int reaped = 0;
  while (reaped < limit && events_begin_ < events_end_) {
    const epoll_event event = events_[events_begin_++];
    if (event.data.ptr == nullptr) continue;
    ++reaped;
    static_cast<Watched*>(event.data.ptr)->OnEvent(epoll_fd_, event.events);
  }
  return reaped;
}

int EpollRing::ReapFinished(int limit) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    reaped_.Append(&finished_);
  }
  int reaped = 0;
  while (reaped < limit && !reaped_.empty()) {
    ++reaped;
    RingRequest* request = reaped_.PopFront();
    Finish(request, request->result_, 0);
  }
  return reaped;
}

void EpollRing::FetchEvents() {
  const int count = epoll_wait(epoll_fd_, events_.data(),
                               static_cast<int>(events_.size()), 0);
  SLUICE_CHECK(count >= 0 || errno == EINTR);
  events_begin_ = events_end_ = 0;
  for (int i = 0; i < count; ++i) {
    const epoll_event event = events_[static_cast<size_t>(i)];
    if (event.data.ptr != nullptr) events_[events_end_++] = event;
  }
}

bool EpollRing::HasOwnWork() const {
  return events_begin_ < events_end_ || !reaped_.empty() || has_cancelled();
}

bool EpollRing::HasWork() const {
  if (HasOwnWork()) return true;
  std::lock_guard<std::mutex> lock(mutex_);
  return !finished_.empty();
}

void EpollRing::Wait(int64_t timeout_nanos) {
  if (HasOwnWork()) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!finished_.empty()) return;
    sleeping_ = true;
  }
  timespec timeout{};
  timeout.tv_sec = timeout_nanos / kNanosPerSecond;
  timeout.tv_nsec = timeout_nanos % kNanosPerSecond;
  pollfd door = {epoll_fd_, POLLIN, 0};
  const int rc =
      ppoll(&door, 1, timeout_nanos < 0 ? nullptr : &timeout, nullptr);
  SLUICE_CHECK(rc >= 0 || errno == EINTR);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    sleeping_ = false;
  }
  FetchEvents();
}

}  // namespace sluice
