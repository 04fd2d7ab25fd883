// Threads for what may block: registering memory, resolving names, ioctls that
// wait for a device. A job lives in the coroutine that awaits it (CallBlocking
// in core/async.h); its result comes back by a message.
//
// Thread-safe. Bound: `threads` at most, started when first needed; jobs queue
// in arrival order.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "core/message.h"

namespace sluice {

class Reactor;

class BlockingPool {
 public:
  struct Job : Message {
    void (*work)(Job* job) = nullptr;  // on a thread of the pool
    Reactor* home = nullptr;           // gets the message when it is done
    Job* next_job = nullptr;
  };

  explicit BlockingPool(int threads = 4) : threads_max_(threads) {}
  // Waits for the jobs that run; none may be queued.
  ~BlockingPool();
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;

  void Submit(Job* job);

 private:
  void ThreadMain();

  const int threads_max_;
  std::mutex mutex_;
  std::condition_variable wake_;
  Job* first_ = nullptr;
  Job** last_ = &first_;
  int queued_ = 0;
  int idle_ = 0;  // threads that wait, those already notified too
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace sluice
