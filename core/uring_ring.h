// The door that is an io_uring: operations are submission queue entries,
// descriptors are watched by multishot polls, other threads wake a sleeper by
// MSG_RING or an eventfd.
//
// Bound: what is in flight, watched, cancelled or woken fits the completion
// queue, which therefore cannot overflow.
#pragma once

#include <liburing.h>

#include <memory>
#include <vector>

#include "core/ring.h"

namespace sluice {

class UringRing final : public Ring {
 public:
  // Errors: io_uring_setup's and io_uring_enter's.
  static absl::StatusOr<std::unique_ptr<UringRing>> Create(
      const RingOptions& options);
  ~UringRing() override;

  FdWatch* Watch(int fd, FdWatch::Handler handler, void* context) override;
  FdWatch* WatchAsleep(int fd, FdWatch::Handler handler,
                       void* context) override;
  void Unwatch(FdWatch* watch) override;
  RingFile AddFile(int fd) override;
  void RemoveFile(RingFile file) override;
  int AddBuffer(void* address, size_t bytes) override;
  void RemoveBuffer(int index) override;
  void Submit() override;
  int Reap(int limit) override;
  bool HasWork() const override;
  void Wait(int64_t timeout_nanos) override;
  bool WakeByMessage(int ring_fd, int wake_fd) override;
  int fd() const override { return ring_.ring_fd; }
  uint32_t overflows() const override { return *ring_.cq.koverflow; }

 private:
  class Watched;
  // Of the reserve.
  static constexpr uint32_t kWatchesMax = kReserve / 2;
  static constexpr uint32_t kCancelsMax = kReserve / 4;  // others wait

  explicit UringRing(uint32_t features) : Ring(features) {}
  absl::Status Init(const RingOptions& options);
  void RegisterTables(const RingOptions& options);
  io_uring_sqe* NextSqe();
  void Push(RingRequest* request) override;
  bool Withdraw(RingRequest* request) override;
  void PushCancels();
  void Dispatch(uint64_t user_data, int32_t result, uint32_t flags);
  void OnWakeDone(int wake_fd, int32_t result);
  Watched* AddWatch(int fd, FdWatch::Handler handler, void* context,
                    bool only_asleep);
  void ArmWatch(Watched* watch);
  void ArmAsleep();
  void Forget(Watched* watch);

  io_uring ring_{};
  bool initialised_ = false;
  IntrusiveList<RingRequest> cancelling_;  // in flight, to be cancelled
  uint32_t cancels_ = 0;                   // cancellations in flight
  std::vector<Watched*> asleep_;           // watched by sleepers only
  uint64_t free_files_[64];                // bitmaps, a set bit is free
  uint64_t free_buffers_[64];
};

}  // namespace sluice
