#include "core/ring.h"

#include <atomic>
#include <cerrno>

#include "core/clock.h"
#include "core/epoll_ring.h"
#include "core/log.h"
#include "core/uring_ring.h"

namespace sluice {
namespace {

// EPERM, EACCES; ENOSYS. Others are no refusal: a lack of memory, say.
bool IsRefusal(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsUnimplemented(status);
}

void WarnOnce(const absl::Status& refusal) {
  static std::atomic<bool> warned{false};
  if (warned.exchange(true)) return;
  SLUICE_LOG(kWarning)
      << "io_uring is refused here; epoll and threads take its place and are "
         "slower. To allow it: a seccomp profile with io_uring_setup, "
         "io_uring_enter and io_uring_register, sysctl "
         "kernel.io_uring_disabled=0"
      << KV("refusal", refusal.message());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Ring>> Ring::Create(const RingOptions& options) {
  if ((options.features & kIoUring) == 0) return EpollRing::Create(options);
  absl::StatusOr<std::unique_ptr<Ring>> ring = UringRing::Create(options);
  if (!IsRefusal(ring.status())) return ring;
  WarnOnce(ring.status());
  return EpollRing::Create(options);
}

void Ring::Start(RingRequest* request) {
  SLUICE_CHECK(request->state_ == RingRequest::State::kIdle);
  if (in_flight_ >= limit_ || !waiting_.empty()) {
    request->state_ = RingRequest::State::kWaiting;
    waiting_.PushBack(request);
    return;
  }
  Launch(request);
}

void Ring::Launch(RingRequest* request) {
  request->state_ = RingRequest::State::kInFlight;
  ++in_flight_;
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
      break;
    case RingRequest::State::kInFlight:
      if (!Withdraw(request)) return;
      MakeRoom();
      break;
  }
  request->state_ = RingRequest::State::kCancelled;
  cancelled_.PushBack(request);
}

void Ring::Finish(RingRequest* request, int32_t result, uint32_t flags) {
  MakeRoom();
  Complete(request, result, flags);
}

void Ring::MakeRoom() {
  SLUICE_CHECK(in_flight_ > 0);
  --in_flight_;
  if (RingRequest* next = waiting_.PopFront()) Launch(next);
}

int Ring::ReapCancelled(int limit) {
  int reaped = 0;
  while (reaped < limit && !cancelled_.empty()) {
    ++reaped;
    Complete(cancelled_.PopFront(), -ECANCELED, 0);
  }
  return reaped;
}

void Ring::Complete(RingRequest* request, int32_t result, uint32_t flags) {
  request->state_ = RingRequest::State::kIdle;
  request->OnCompletion(result, flags);
}

void Ring::Drain() {
  for (int round = 0;
       round < 100 && (watches_ > 0 || in_flight_ > 0 || has_cancelled());
       ++round) {
    Wait(kNanosPerMilli);
    Reap(INT32_MAX);
  }
  SLUICE_CHECK(in_flight_ == 0);
  SLUICE_CHECK(waiting_.empty());
  SLUICE_CHECK(cancelled_.empty());
  SLUICE_CHECK(watches_ == 0);
}

}  // namespace sluice
