// Threads for what may block: registering memory, resolving names, ioctls that
// wait for a device, files where there is no io_uring. A coroutine awaits a
// CallBlocking (core/async.h).
//
// Thread-safe. Bound: `threads` at most, started when first needed; jobs queue
// in arrival order.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "core/blocking_job.h"
#include "core/intrusive_list.h"

namespace sluice {

class BlockingPool {
 public:
  explicit BlockingPool(int threads = 4) : threads_max_(threads) {}
  // Waits for the jobs that run; none may be queued.
  ~BlockingPool();
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;

  void Submit(BlockingJob* job);
  // Takes back a job that no thread has begun; false when one has.
  bool Withdraw(BlockingJob* job);

 private:
  void ThreadMain();

  const int threads_max_;
  std::mutex mutex_;
  std::condition_variable wake_;
  IntrusiveList<BlockingJob> queue_;
  int queued_ = 0;
  int idle_ = 0;  // threads that wait, those already notified too
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace sluice
