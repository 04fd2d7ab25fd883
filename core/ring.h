// The one door to the kernel, with what a reactor needs of it: operations
// complete into a RingSink, descriptors are watched, and there is one place to
// sleep. It is an io_uring (uring_ring.h), or, where that is refused, epoll and
// threads (epoll_ring.h), which do the same more slowly.
//
// Owned by one reactor and used on its thread only, but for fd(). Bound: at
// most `completions - kReserve` operations are in flight, the rest wait in
// arrival order.
#pragma once

#include <liburing.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "core/blocking_job.h"
#include "core/check.h"
#include "core/intrusive_list.h"

namespace sluice {

// What a kernel may lack or an operator may switch off. Each one masked off is
// tested.
enum RingFeature : uint32_t {
  kSingleIssuer = 1u << 0,
  kDeferTaskrun = 1u << 1,  // needs kSingleIssuer
  kMultishotPoll = 1u << 2,
  kMsgRing = 1u << 3,
  kFixedFiles = 1u << 4,
  kFixedBuffers = 1u << 5,
  kIoUring = 1u << 6,  // all of the others need it
  kAllRingFeatures = (1u << 7) - 1,
};

struct RingOptions {
  uint32_t entries = 256;       // submission queue; a power of two
  uint32_t completions = 8192;  // completion queue; a power of two
  uint32_t features = kAllRingFeatures;
  uint32_t files = 1024;   // slots for fixed files
  uint32_t buffers = 256;  // slots for fixed buffers, each at most 1 GiB
  // Without io_uring: operations that run at once, on a thread each.
  int threads = 16;
};

// Receives completions: user_data points to one.
class RingSink {
 public:
  RingSink() = default;
  RingSink(const RingSink&) = delete;
  RingSink& operator=(const RingSink&) = delete;
  virtual ~RingSink() = default;

  // `result` and `flags` as in the CQE.
  virtual void OnCompletion(int32_t result, uint32_t flags) = 0;
};

// One operation, prepared by io_uring_prep_* on `sqe()`; user_data is the
// ring's. Stays where it is until it has completed. One completion each: no
// multishot, no zero-copy. Without io_uring it is a job for a thread, and only
// what file_call.h knows can be done.
class RingRequest : public RingSink, public BlockingJob {
 public:
  // The kernel writes to what a request in flight names: it must be over.
  ~RingRequest() override { SLUICE_CHECK(state_ == State::kIdle); }

  io_uring_sqe* sqe() { return &sqe_; }

 private:
  friend class Ring;
  friend class EpollRing;
  friend class UringRing;

  // kIdle -> kInFlight or kWaiting (Start); kWaiting -> kInFlight (Reap or
  // Cancel made room) or kCancelled (Cancel); kInFlight -> kCancelled (Cancel,
  // no thread had begun it); kInFlight <-> kCancelling (on an io_uring: Cancel
  // asked, its turn came); kInFlight, kCancelling, kCancelled -> kIdle (Reap,
  // just before OnCompletion). In a list of Ring's in kWaiting and kCancelled,
  // of the door's in kCancelling and, without io_uring, in kInFlight.
  enum class State : uint8_t {
    kIdle,
    kWaiting,
    kInFlight,
    kCancelling,
    kCancelled,
  };

  io_uring_sqe sqe_{};
  State state_ = State::kIdle;
  std::atomic<bool> cancelled_{false};  // the thread is told to end it
  int32_t result_ = 0;                  // the thread's
};

// A file as the ring knows it: an index when `fixed`, else the descriptor.
struct RingFile {
  int fd = -1;
  bool fixed = false;

  void Use(io_uring_sqe* sqe) const {
    sqe->fd = fd;
    if (fixed) sqe->flags |= IOSQE_FIXED_FILE;
  }
};

// A watched descriptor, the ring's own.
class FdWatch {
 public:
  using Handler = void (*)(void* context);
  FdWatch(const FdWatch&) = delete;
  FdWatch& operator=(const FdWatch&) = delete;

 protected:
  FdWatch(int fd, Handler handler, void* context)
      : fd_(fd), handler_(handler), context_(context) {}
  ~FdWatch() = default;

  const int fd_;
  Handler handler_;  // null once unwatched
  void* const context_;
};

class Ring {
 public:
  // An io_uring. Where the kernel or a seccomp profile refuses one, epoll and
  // threads, with a warning, once per process; where it is masked off, the same
  // without. Errors: io_uring_setup's others.
  static absl::StatusOr<std::unique_ptr<Ring>> Create(
      const RingOptions& options);
  // Waits a little for what is in flight; all of it must be over then.
  virtual ~Ring() = default;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Queues the operation; it is submitted with the tick, or waits for room.
  void Start(RingRequest* request);
  // Asks for its end; it completes with -ECANCELED or otherwise, in a later
  // Reap and never in this call. Does nothing when it is not started. What runs
  // on a file or disk already is not cut short.
  void Cancel(RingRequest* request);

  // Watches for readability, of a descriptor that can be polled. Readiness is
  // an edge: the handler drains to EAGAIN. It may unwatch. One watch for a
  // descriptor; unwatched before the ring dies.
  virtual FdWatch* Watch(int fd, FdWatch::Handler handler, void* context) = 0;
  // The same for what only a sleeper has to hear of, since whoever is awake
  // finds it otherwise: looked at as Wait begins and while it lasts. It may be
  // told once more after that.
  virtual FdWatch* WatchAsleep(int fd, FdWatch::Handler handler,
                               void* context) = 0;
  // No handler runs after this, and the kernel no longer holds the file: the
  // descriptor may be closed.
  virtual void Unwatch(FdWatch* watch) = 0;

  // Fixed files: falls back to the plain descriptor when the table is full or
  // the feature is off.
  virtual RingFile AddFile(int fd) = 0;
  virtual void RemoveFile(RingFile file) = 0;

  // Fixed buffers: the index to use with *_FIXED, or -1 when the table is full
  // or the kernel refuses, for the limit on locked memory as a rule: said once
  // per process. `bytes` at most 1 GiB.
  virtual int AddBuffer(void* address, size_t bytes) = 0;
  virtual void RemoveBuffer(int index) = 0;

  // Hands queued operations to the kernel and lets it finish deferred work.
  // One system call at most, none when there is nothing to do.
  virtual void Submit() = 0;
  // Runs at most `limit` completions; returns how many.
  virtual int Reap(int limit) = 0;
  // True when Reap or Submit would find something.
  virtual bool HasWork() const = 0;
  // Submits and sleeps until a completion or the timeout (nanoseconds, < 0:
  // for ever).
  virtual void Wait(int64_t timeout_nanos) = 0;

  // Makes the sleeping owner of the ring `ring_fd` return from Wait. Goes out
  // with the next Submit of this ring; where the kernel then refuses, `wake_fd`
  // (the sleeper's eventfd) is written. False when there is no such way.
  virtual bool WakeByMessage(int ring_fd, int wake_fd) = 0;
  // -1 for a ring that no message wakes.
  virtual int fd() const = 0;
  uint32_t features() const { return features_; }

  uint32_t in_flight() const { return in_flight_; }
  // Completions that the kernel had to keep aside. Stays 0.
  virtual uint32_t overflows() const = 0;

 protected:
  static constexpr uint32_t kReserve = 1024;

  explicit Ring(uint32_t features) : features_(features) {}

  // Starts it; it ends in a call of Finish. There is room for it.
  virtual void Push(RingRequest* request) = 0;
  // Asks for the end of one in flight. True when it had not begun: then the
  // door has let go of it.
  virtual bool Withdraw(RingRequest* request) = 0;
  // One that was in flight has ended.
  void Finish(RingRequest* request, int32_t result, uint32_t flags);
  // Of what never started; as Reap.
  int ReapCancelled(int limit);
  bool has_cancelled() const { return !cancelled_.empty(); }
  // A door's destructor begins with it.
  void Drain();

  uint32_t features_;
  uint32_t limit_ = 0;  // operations in flight at most
  uint32_t watches_ = 0;

 private:
  void Launch(RingRequest* request);
  void MakeRoom();
  static void Complete(RingRequest* request, int32_t result, uint32_t flags);

  uint32_t in_flight_ = 0;
  IntrusiveList<RingRequest> waiting_;    // for room
  IntrusiveList<RingRequest> cancelled_;  // never started, complete next
};

}  // namespace sluice
