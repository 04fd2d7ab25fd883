// The one door to the kernel: an io_uring with what a reactor needs of it.
// Operations complete into a RingSink, descriptors are watched by multishot
// polls, other threads wake a sleeper by MSG_RING or an eventfd.
//
// Owned by one reactor and used on its thread only, but for fd(). Bound: at
// most `completions - kReserve` operations are in flight, the rest wait in
// arrival order, so that the completion queue cannot overflow; the reserve is
// for watches, cancellations and wake-ups.
#pragma once

#include <liburing.h>

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
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
  kAllRingFeatures = (1u << 6) - 1,
};

struct RingOptions {
  uint32_t entries = 256;       // submission queue; a power of two
  uint32_t completions = 8192;  // completion queue; a power of two
  uint32_t features = kAllRingFeatures;
  uint32_t files = 1024;   // slots for fixed files
  uint32_t buffers = 256;  // slots for fixed buffers, each at most 1 GiB
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

// One operation, prepared by io_uring_prep_* on `sqe()`. Stays where it is
// until it has completed. One completion each: no multishot, no zero-copy.
class RingRequest : public RingSink, public ListNode {
 public:
  // The kernel writes to what a request in flight names: it must be over.
  ~RingRequest() override { SLUICE_CHECK(state_ == State::kIdle); }

  io_uring_sqe* sqe() { return &sqe_; }

 private:
  friend class Ring;

  // kIdle -> kInFlight or kWaiting (Start); kWaiting -> kInFlight (Reap made
  // room) or kCancelled (Cancel); kInFlight <-> kCancelling (Cancel asked, its
  // turn came); kInFlight, kCancelling, kCancelled -> kIdle (Reap, just before
  // OnCompletion). Linked in all but kIdle and kInFlight.
  enum class State : uint8_t {
    kIdle,
    kWaiting,
    kInFlight,
    kCancelling,
    kCancelled,
  };

  io_uring_sqe sqe_{};
  State state_ = State::kIdle;
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

// A watched descriptor. Readiness is an edge: the handler drains to EAGAIN.
class FdWatch final : public RingSink {
 public:
  using Handler = void (*)(void* context);
  void OnCompletion(int32_t result, uint32_t flags) override;

 private:
  friend class Ring;
  FdWatch(class Ring* ring, int fd, Handler handler, void* context)
      : ring_(ring), fd_(fd), handler_(handler), context_(context) {}

  Ring* ring_;
  int fd_;
  Handler handler_;  // null once unwatched
  void* context_;
};

class Ring {
 public:
  static absl::StatusOr<std::unique_ptr<Ring>> Create(
      const RingOptions& options);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Queues the operation; it is submitted with the tick, or waits for room.
  void Start(RingRequest* request);
  // Asks the kernel to cancel it; it completes with -ECANCELED or otherwise, in
  // a later Reap and never in this call. Does nothing when it is not started.
  void Cancel(RingRequest* request);

  // Watches for readability, of a descriptor that can be polled. The handler
  // may unwatch. Unwatched before the ring dies.
  FdWatch* Watch(int fd, FdWatch::Handler handler, void* context);
  // No handler runs after this, and the kernel no longer holds the file: the
  // descriptor may be closed.
  void Unwatch(FdWatch* watch);

  // Fixed files: falls back to the plain descriptor when the table is full or
  // the feature is off.
  RingFile AddFile(int fd);
  void RemoveFile(RingFile file);

  // Fixed buffers: the index to use with *_FIXED, or -1 when the kernel or the
  // locked-memory limit refuses. `bytes` at most 1 GiB.
  int AddBuffer(void* address, size_t bytes);
  void RemoveBuffer(int index);

  // Hands queued operations to the kernel and lets it finish deferred work.
  // One system call at most, none when there is nothing to do.
  void Submit();
  // Runs at most `limit` completions; returns how many.
  int Reap(int limit);
  // True when Reap or Submit would find something.
  bool HasWork() const;
  // Submits and sleeps until a completion or the timeout (nanoseconds, < 0:
  // for ever).
  void Wait(int64_t timeout_nanos);

  // Makes the sleeping owner of the ring `ring_fd` return from Wait. Goes out
  // with the next Submit of this ring; where the kernel then refuses, `wake_fd`
  // (the sleeper's eventfd) is written. False when the feature is masked off.
  bool WakeByMessage(int ring_fd, int wake_fd);
  int fd() const { return ring_.ring_fd; }
  uint32_t features() const { return features_; }

  uint32_t in_flight() const { return in_flight_; }
  // Completions that the kernel had to keep aside. Stays 0.
  uint32_t overflows() const { return *ring_.cq.koverflow; }

 private:
  friend class FdWatch;
  static constexpr uint32_t kReserve = 1024;
  static constexpr uint32_t kWatchesMax = kReserve / 2;
  static constexpr uint32_t kCancelsMax = kReserve / 4;  // others wait

  Ring() = default;
  absl::Status Init(const RingOptions& options);
  void RegisterTables(const RingOptions& options);
  io_uring_sqe* NextSqe();
  void Push(RingRequest* request);
  void PushCancels();
  void Dispatch(uint64_t user_data, int32_t result, uint32_t flags);
  void Finish(RingRequest* request, int32_t result, uint32_t flags);
  void OnWakeDone(int wake_fd, int32_t result);
  void ArmWatch(FdWatch* watch);
  void Forget(FdWatch* watch);

  io_uring ring_{};
  bool initialised_ = false;
  uint32_t features_ = 0;
  uint32_t limit_ = 0;  // operations in flight at most
  uint32_t in_flight_ = 0;
  IntrusiveList<RingRequest> waiting_;     // for room
  IntrusiveList<RingRequest> cancelling_;  // in flight, to be cancelled
  IntrusiveList<RingRequest> cancelled_;   // never started, complete next
  uint32_t cancels_ = 0;                   // cancellations in flight
  uint64_t free_files_[64];                // bitmaps, a set bit is free
  uint64_t free_buffers_[64];
  uint32_t watches_ = 0;
};

}  // namespace sluice
