// The door where io_uring is refused: descriptors are watched by epoll, and a
// bounded pool of threads runs the operations, as system calls. Their ends come
// back in a list, and an eventfd wakes the ring when it sleeps.
//
// Its own thread takes a lock once a tick and makes a system call for the
// watches. No fixed files or buffers, no messages between rings. Cancelled in
// time, an operation completes with -ECANCELED; one that runs on a file
// completes with its result.
//
// Bound: RingOptions::threads run, `completions - kReserve` are in flight.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <memory>
#include <mutex>

#include "core/blocking_pool.h"
#include "core/ring.h"

namespace sluice {

class EpollRing final : public Ring {
 public:
  // Errors: epoll_create1's, eventfd's.
  static absl::StatusOr<std::unique_ptr<EpollRing>> Create(
      const RingOptions& options);
  ~EpollRing() override;

  FdWatch* Watch(int fd, FdWatch::Handler handler, void* context) override;
  // It looks in every tick, awake or not.
  FdWatch* WatchAsleep(int fd, FdWatch::Handler handler,
                       void* context) override {
    return Watch(fd, handler, context);
  }
  void Unwatch(FdWatch* watch) override;
  RingFile AddFile(int fd) override { return RingFile{fd, false}; }
  void RemoveFile(RingFile) override {}
  int AddBuffer(void*, size_t) override { return -1; }
  void RemoveBuffer(int) override {}
  void Submit() override {}
  int Reap(int limit) override;
  bool HasWork() const override;
  void Wait(int64_t timeout_nanos) override;
  bool WakeByMessage(int, int) override { return false; }
  int fd() const override { return -1; }
  uint32_t overflows() const override { return 0; }

 private:
  class Watched;

  EpollRing() : Ring(0) {}
  absl::Status Init(const RingOptions& options);
  void Push(RingRequest* request) override;
  bool Withdraw(RingRequest* request) override;
  static void RunOnThread(BlockingJob* job);
  void OnRun(RingRequest* request);  // on a thread of the pool
  int ReapEvents(int limit);
  int ReapFinished(int limit);
  void FetchEvents();
  bool HasOwnWork() const;

  int epoll_fd_ = -1;
  int wake_fd_ = -1;                      // never read: each write is an edge
  std::array<epoll_event, 64> events_{};  // fetched; null: unwatched since
  size_t events_begin_ = 0;
  size_t events_end_ = 0;
  IntrusiveList<RingRequest> reaped_;  // taken from finished_
  mutable std::mutex mutex_;           // of the next two
  IntrusiveList<RingRequest> finished_;
  bool sleeping_ = false;
  std::unique_ptr<BlockingPool> pool_;
};

}  // namespace sluice
