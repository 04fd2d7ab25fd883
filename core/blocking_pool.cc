#include "core/blocking_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "core/check.h"

namespace sluice {
namespace {

// A reactor that starts a thread may be pinned: the thread is not, or it would
// take its processor away from it. It runs where the program may run.
void Unpin() {
  cpu_set_t set;
  if (sched_getaffinity(getpid(), sizeof(set), &set) != 0) return;
  sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace

BlockingPool::~BlockingPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    SLUICE_CHECK(queue_.empty());
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void BlockingPool::Submit(BlockingJob* job) {
  std::lock_guard<std::mutex> lock(mutex_);
  queue_.PushBack(job);
  job->queued_ = true;
  ++queued_;
  if (queued_ > idle_ && static_cast<int>(threads_.size()) < threads_max_) {
    threads_.emplace_back(&BlockingPool::ThreadMain, this);
  } else {
    wake_.notify_one();
  }
}

bool BlockingPool::Withdraw(BlockingJob* job) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!job->queued_) return false;
  queue_.Remove(job);
  job->queued_ = false;
  --queued_;
  return true;
}

void BlockingPool::ThreadMain() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), "blocking");
  Unpin();
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    ++idle_;
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    --idle_;
    BlockingJob* job = queue_.PopFront();
    if (job == nullptr) return;
    job->queued_ = false;
    --queued_;
    lock.unlock();
    job->work(job);
    lock.lock();
  }
}

}  // namespace sluice
