#include "core/ring.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/clock.h"

namespace sluice {
namespace {

// user_data is an FdWatch's address, or one of these in the lowest bits. Zero:
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

void FdWatch::OnCompletion(int32_t result, uint32_t flags) {
  const bool more = (flags & IORING_CQE_F_MORE) != 0;
  if (handler_ == nullptr) {
    if (!more) ring_->Forget(this);
    return;
  }
  // Closed before it was unwatched, or nothing that can be polled.
  SLUICE_CHECK(result != -EBADF);
  SLUICE_CHECK(result != -EINVAL);
  if (!more && result != -ECANCELED) ring_->ArmWatch(this);
  handler_(context_);
}

absl::StatusOr<std::unique_ptr<Ring>> Ring::Create(const RingOptions& options) {
  std::unique_ptr<Ring> ring(new Ring);
  absl::Status status = ring->Init(options);
  if (!status.ok()) return status;
  return ring;
}

absl::Status Ring::Init(const RingOptions& options) {
  SLUICE_CHECK(options.completions > 2 * kReserve);
  features_ = options.features;
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
  limit_ = params.cq_entries - kReserve;
  RegisterTables(options);
  return absl::OkStatus();
}

Ring::~Ring() {
  if (!initialised_) return;
  // Unwatched descriptors whose last completion is still to come.
  for (int round = 0;
       round < 100 && (watches_ > 0 || in_flight_ > 0 || !cancelled_.empty());
       ++round) {
    Wait(kNanosPerMilli);
    Reap(INT32_MAX);
  }
  SLUICE_CHECK(in_flight_ == 0);
  SLUICE_CHECK(waiting_.empty());
  SLUICE_CHECK(cancelled_.empty());
  SLUICE_CHECK(watches_ == 0);
  io_uring_queue_exit(&ring_);
}

io_uring_sqe* Ring::NextSqe() {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  while (sqe == nullptr) {
    const int rc = io_uring_submit(&ring_);
    SLUICE_CHECK(rc >= 0 || Retryable(rc));
    sqe = io_uring_get_sqe(&ring_);
  }
  return sqe;
}

void Ring::Push(RingRequest* request) {
  io_uring_sqe* sqe = NextSqe();
  *sqe = request->sqe_;
  sqe->user_data = UserData(request) | kRequestTag;
  request->state_ = RingRequest::State::kInFlight;
  ++in_flight_;
}

void Ring::Start(RingRequest* request) {
  SLUICE_CHECK(request->state_ == RingRequest::State::kIdle);
  if (in_flight_ >= limit_ || !waiting_.empty()) {
    request->state_ = RingRequest::State::kWaiting;
    waiting_.PushBack(request);
    return;
  }
  Push(request);
}

void Ring::Cancel(RingRequest* request) {
  switch (request->state_) {
    case RingRequest::State::kIdle:
    case RingRequest::State::kCancelling:
    case RingRequest::State::kCancelled:
      return;
    case RingRequest::State::kWaiting:
      waiting_.Remove(request);
      request->state_ = RingRequest::State::kCancelled;
      cancelled_.PushBack(request);
      return;
    case RingRequest::State::kInFlight:
      request->state_ = RingRequest::State::kCancelling;
      cancelling_.PushBack(request);
      PushCancels();
      return;
  }
}

// A cancellation has a completion of its own: only so many at once.
void Ring::PushCancels() {
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

FdWatch* Ring::Watch(int fd, FdWatch::Handler handler, void* context) {
  auto* watch = new FdWatch(this, fd, handler, context);
  ++watches_;
  SLUICE_CHECK(watches_ <= kWatchesMax);
  ArmWatch(watch);
  return watch;
}

void Ring::ArmWatch(FdWatch* watch) {
  io_uring_sqe* sqe = NextSqe();
  if (features_ & kMultishotPoll) {
    io_uring_prep_poll_multishot(sqe, watch->fd_, POLLIN);
  } else {
    io_uring_prep_poll_add(sqe, watch->fd_, POLLIN);
  }
  sqe->user_data = UserData(watch);
}

void Ring::Unwatch(FdWatch* watch) {
  watch->handler_ = nullptr;
  io_uring_sqe* sqe = NextSqe();
  io_uring_prep_cancel64(sqe, UserData(watch), 0);
  io_uring_sqe_set_data(sqe, nullptr);
  // The kernel holds the file until the poll has completed, which is deferred
  // work: do it now.
  const int rc = io_uring_submit_and_get_events(&ring_);
  SLUICE_CHECK(rc >= 0 || Retryable(rc));
}

void Ring::Forget(FdWatch* watch) {
  SLUICE_CHECK(watches_ > 0);
  --watches_;
  delete watch;
}

bool Ring::HasWork() const {
  constexpr unsigned kPending = IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW;
  return io_uring_cq_ready(&ring_) > 0 || io_uring_sq_ready(&ring_) > 0 ||
         (IO_URING_READ_ONCE(*ring_.sq.kflags) & kPending) != 0 ||
         !cancelled_.empty();
}

void Ring::Submit() {
  const unsigned flags = IO_URING_READ_ONCE(*ring_.sq.kflags);
  const bool deferred =
      (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
  if (!deferred && io_uring_sq_ready(&ring_) == 0) return;
  const int rc = deferred ? io_uring_submit_and_get_events(&ring_)
                          : io_uring_submit(&ring_);
  SLUICE_CHECK(rc >= 0 || Retryable(rc));
}

int Ring::Reap(int limit) {
  int reaped = 0;
  while (reaped < limit && !cancelled_.empty()) {
    ++reaped;
    Finish(cancelled_.PopFront(), -ECANCELED, 0);
  }
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

void Ring::Dispatch(uint64_t user_data, int32_t result, uint32_t flags) {
  if (user_data == 0) return;
  switch (user_data & kTagMask) {
    case kRequestTag: {
      auto* request = static_cast<RingRequest*>(Sink(user_data));
      SLUICE_CHECK(in_flight_ > 0);
      --in_flight_;
      if (request->state_ == RingRequest::State::kCancelling) {
        cancelling_.Remove(request);
      }
      if (RingRequest* next = waiting_.PopFront()) Push(next);
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

void Ring::Finish(RingRequest* request, int32_t result, uint32_t flags) {
  SLUICE_CHECK((flags & IORING_CQE_F_MORE) == 0);
  request->state_ = RingRequest::State::kIdle;
  request->OnCompletion(result, flags);
}

void Ring::Wait(int64_t timeout_nanos) {
  io_uring_cqe* cqe = nullptr;
  __kernel_timespec timeout{};
  timeout.tv_sec = timeout_nanos / kNanosPerSecond;
  timeout.tv_nsec = timeout_nanos % kNanosPerSecond;
  const int rc = io_uring_submit_and_wait_timeout(
      &ring_, &cqe, 1, timeout_nanos < 0 ? nullptr : &timeout, nullptr);
  SLUICE_CHECK(rc >= 0 || rc == -ETIME || Retryable(rc));
}

bool Ring::WakeByMessage(int ring_fd, int wake_fd) {
  if ((features_ & kMsgRing) == 0) return false;
  io_uring_sqe* sqe = NextSqe();
  io_uring_prep_msg_ring(sqe, ring_fd, 0, 0, 0);
  sqe->user_data = static_cast<uint64_t>(wake_fd) << kTagBits | kWakeTag;
  return true;
}

// The message is already in the sleeper's inbox: a wake-up that the kernel
// refused must go the other way, or it would be lost.
void Ring::OnWakeDone(int wake_fd, int32_t result) {
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
