#include "core/uring_ring.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/clock.h"

namespace sluice {
namespace {

// user_data is a Watched's address, or one of these in the lowest bits. Zero:
// nobody wants to know.
constexpr uint64_t kRequestTag = 1;  // with a RingRequest's address
constexpr uint64_t kCancelTag = 2;
constexpr uint64_t kWakeTag = 4;  // with the sleeper's eventfd above it
constexpr uint64_t kTagMask = 7;
constexpr int kTagBits = 3;
static_assert(alignof(RingSink) > kTagMask);

uint64_t UserData(RingSink* sink) { return reinterpret_cast<uint64_t>(sink); }

RingSink* Sink(uint64_t user_data) {
  return reinterpret_cast<RingSink*>(user_data & ~kTagMask);
}

bool Retryable(int rc) { return rc == -EBUSY || rc == -EAGAIN || rc == -EINTR; }

}  // namespace

class UringRing::Watched final : public FdWatch, public RingSink {
 public:
  Watched(UringRing* ring, int fd, Handler handler, void* context,
          bool only_asleep)
      : FdWatch(fd, handler, context), ring_(ring), only_asleep_(only_asleep) {}

  int fd() const { return fd_; }
  bool only_asleep() const { return only_asleep_; }
  void Stop() { handler_ = nullptr; }
  void OnCompletion(int32_t result, uint32_t flags) override;

  bool armed = false;  // the kernel knows of it

 private:
  UringRing* const ring_;
  const bool only_asleep_;
};

void UringRing::Watched::OnCompletion(int32_t result, uint32_t flags) {
  const bool more = (flags & IORING_CQE_F_MORE) != 0;
  armed = more;
  if (handler_ == nullptr) {
    if (!more) ring_->Forget(this);
    return;
  }
  // Closed before it was unwatched, or nothing that can be polled.
  SLUICE_CHECK(result != -EBADF);
  SLUICE_CHECK(result != -EINVAL);
  if (!more && !only_asleep_ && result != -ECANCELED) ring_->ArmWatch(this);
  handler_(context_);
}

absl::StatusOr<std::unique_ptr<UringRing>> UringRing::Create(
    const RingOptions& options) {
  std::unique_ptr<UringRing> ring(new UringRing(options.features));
  absl::Status status = ring->Init(options);
  if (!status.ok()) return status;
  return ring;
}

absl::Status UringRing::Init(const RingOptions& options) {
  SLUICE_CHECK(options.completions > 2 * kReserve);
  if ((features_ & kSingleIssuer) == 0) features_ &= ~uint32_t{kDeferTaskrun};
  io_uring_params params{};
  params.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
  params.cq_entries = options.completions;
  if (features_ & kSingleIssuer) params.flags |= IORING_SETUP_SINGLE_ISSUER;
  if (features_ & kDeferTaskrun) {
    params.flags |= IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
  } else {
    params.flags |= IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
  }
  const int rc = io_uring_queue_init_params(options.entries, &ring_, &params);
  if (rc < 0) {
    return absl::ErrnoToStatus(
        -rc, absl::StrCat("io_uring_setup entries=", options.entries,
                          " completions=", options.completions));
  }
  initialised_ = true;
  // A seccomp profile may know the one call and not the other.
  const int entered =
      io_uring_enter(static_cast<unsigned>(ring_.ring_fd), 0, 0, 0, nullptr);
  if (entered < 0) return absl::ErrnoToStatus(-entered, "io_uring_enter");
  limit_ = params.cq_entries - kReserve;
  RegisterTables(options);
  return absl::OkStatus();
}

UringRing::~UringRing() {
  if (!initialised_) return;
  Drain();
  io_uring_queue_exit(&ring_);
}

io_uring_sqe* UringRing::NextSqe() {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  while (sqe == nullptr) {
    const int rc = io_uring_submit(&ring_);
    SLUICE_CHECK(rc >= 0 || Retryable(rc));
    sqe = io_uring_get_sqe(&ring_);
  }
  return sqe;
}

void UringRing::Push(RingRequest* request) {
  io_uring_sqe* sqe = NextSqe();
  *sqe = request->sqe_;
  sqe->user_data = UserData(request) | kRequestTag;
}

bool UringRing::Withdraw(RingRequest* request) {
  request->state_ = RingRequest::State::kCancelling;
  cancelling_.PushBack(request);
  PushCancels();
  return false;
}

// A cancellation has a completion of its own: only so many at once.
void UringRing::PushCancels() {
  while (cancels_ < kCancelsMax) {
    RingRequest* request = cancelling_.PopFront();
    if (request == nullptr) return;
    request->state_ = RingRequest::State::kInFlight;
    ++cancels_;
    io_uring_sqe* sqe = NextSqe();
    io_uring_prep_cancel64(sqe, UserData(request) | kRequestTag, 0);
    sqe->user_data = kCancelTag;
  }
}

UringRing::Watched* UringRing::AddWatch(int fd, FdWatch::Handler handler,
                                        void* context, bool only_asleep) {
  ++watches_;
  SLUICE_CHECK(watches_ <= kWatchesMax);
  return new Watched(this, fd, handler, context, only_asleep);
}

FdWatch* UringRing::Watch(int fd, FdWatch::Handler handler, void* context) {
  Watched* watch = AddWatch(fd, handler, context, /*only_asleep=*/false);
  ArmWatch(watch);
  return watch;
}

FdWatch* UringRing::WatchAsleep(int fd, FdWatch::Handler handler,
                                void* context) {
  Watched* watch = AddWatch(fd, handler, context, /*only_asleep=*/true);
  asleep_.push_back(watch);
  return watch;
}

void UringRing::ArmAsleep() {
  for (Watched* watch : asleep_) {
    if (!watch->armed) ArmWatch(watch);
  }
}

void UringRing::ArmWatch(Watched* watch) {
  io_uring_sqe* sqe = NextSqe();
  watch->armed = true;
  if ((features_ & kMultishotPoll) && !watch->only_asleep()) {
    io_uring_prep_poll_multishot(sqe, watch->fd(), POLLIN);
  } else {
    io_uring_prep_poll_add(sqe, watch->fd(), POLLIN);
  }
  sqe->user_data = UserData(watch);
}

void UringRing::Unwatch(FdWatch* unwatched) {
  auto* watch = static_cast<Watched*>(unwatched);
  std::erase(asleep_, watch);
  if (!watch->armed) {
    Forget(watch);
    return;
  }
  watch->Stop();
  io_uring_sqe* sqe = NextSqe();
  io_uring_prep_cancel64(sqe, UserData(watch), 0);
  io_uring_sqe_set_data(sqe, nullptr);
  // The kernel holds the file until the poll has completed, which is deferred
  // work: do it now.
  const int rc = io_uring_submit_and_get_events(&ring_);
  SLUICE_CHECK(rc >= 0 || Retryable(rc));
}

void UringRing::Forget(Watched* watch) {
  SLUICE_CHECK(watches_ > 0);
  --watches_;
  delete watch;
}

// Deferred work does not count: Wait runs it before it sleeps.
bool UringRing::HasWork() const {
  return io_uring_cq_ready(&ring_) > 0 || io_uring_sq_ready(&ring_) > 0 ||
         (IO_URING_READ_ONCE(*ring_.sq.kflags) & IORING_SQ_CQ_OVERFLOW) != 0 ||
         has_cancelled();
}

// The kernel says that there is deferred work after it has queued it, which may
// be after we have run it: then IORING_SQ_TASKRUN stays set, over nothing,
// until there is work again (io_req_local_work_add, Linux 6.1 to 6.18). So it
// is cleared here, before the work is run: of what is queued later it is set
// anew.
void UringRing::Submit() {
  const unsigned flags = IO_URING_READ_ONCE(*ring_.sq.kflags);
  const bool deferred =
      (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
  if (!deferred && io_uring_sq_ready(&ring_) == 0) return;
  if ((flags & IORING_SQ_TASKRUN) != 0) {
    __atomic_fetch_and(ring_.sq.kflags, ~IORING_SQ_TASKRUN, __ATOMIC_SEQ_CST);
  }
  const int rc = deferred ? io_uring_submit_and_get_events(&ring_)
                          : io_uring_submit(&ring_);
  SLUICE_CHECK(rc >= 0 || Retryable(rc));
}

int UringRing::Reap(int limit) {
  int reaped = ReapCancelled(limit);
  io_uring_cqe* cqe = nullptr;
  while (reaped < limit && io_uring_cq_ready(&ring_) > 0) {
    if (io_uring_peek_cqe(&ring_, &cqe) != 0) break;
    const uint64_t user_data = cqe->user_data;
    const int32_t result = cqe->res;
    const uint32_t flags = cqe->flags;
    io_uring_cqe_seen(&ring_, cqe);
    ++reaped;
    Dispatch(user_data, result, flags);
  }
  return reaped;
}

void UringRing::Dispatch(uint64_t user_data, int32_t result, uint32_t flags) {
  if (user_data == 0) return;
  switch (user_data & kTagMask) {
    case kRequestTag: {
      auto* request = static_cast<RingRequest*>(Sink(user_data));
      SLUICE_CHECK((flags & IORING_CQE_F_MORE) == 0);
      if (request->state_ == RingRequest::State::kCancelling) {
        cancelling_.Remove(request);
      }
      Finish(request, result, flags);
      return;
    }
    case kCancelTag:
      SLUICE_CHECK(cancels_ > 0);
      --cancels_;
      PushCancels();
      return;
    case kWakeTag:
      OnWakeDone(static_cast<int>(user_data >> kTagBits), result);
      return;
    default:
      Sink(user_data)->OnCompletion(result, flags);
  }
}

void UringRing::Wait(int64_t timeout_nanos) {
  ArmAsleep();
  io_uring_cqe* cqe = nullptr;
  __kernel_timespec timeout{};
  timeout.tv_sec = timeout_nanos / kNanosPerSecond;
  timeout.tv_nsec = timeout_nanos % kNanosPerSecond;
  const int rc = io_uring_submit_and_wait_timeout(
      &ring_, &cqe, 1, timeout_nanos < 0 ? nullptr : &timeout, nullptr);
  SLUICE_CHECK(rc >= 0 || rc == -ETIME || Retryable(rc));
}

bool UringRing::WakeByMessage(int ring_fd, int wake_fd) {
  if ((features_ & kMsgRing) == 0 || ring_fd < 0) return false;
  io_uring_sqe* sqe = NextSqe();
  io_uring_prep_msg_ring(sqe, ring_fd, 0, 0, 0);
  sqe->user_data = static_cast<uint64_t>(wake_fd) << kTagBits | kWakeTag;
  return true;
}

// The message is already in the sleeper's inbox: a wake-up that the kernel
// refused must go the other way, or it would be lost.
void UringRing::OnWakeDone(int wake_fd, int32_t result) {
  if (result >= 0) return;
  // The sleeper's ring is gone, and its eventfd with it.
  if (result == -EBADF || result == -EBADFD || result == -EOWNERDEAD) return;
  if (result == -EINVAL || result == -EOPNOTSUPP) {
    features_ &= ~uint32_t{kMsgRing};
  }
  const uint64_t one = 1;
  const ssize_t written = write(wake_fd, &one, sizeof(one));
  SLUICE_CHECK(written == sizeof(one) || errno == EAGAIN || errno == EBADF);
}

}  // namespace sluice
