#include "core/blocking_pool.h"

#include <pthread.h>
#include <signal.h>

#include "core/check.h"
#include "core/reactor.h"

namespace sluice {

BlockingPool::~BlockingPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    SLUICE_CHECK(first_ == nullptr);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void BlockingPool::Submit(Job* job) {
  std::lock_guard<std::mutex> lock(mutex_);
  job->next_job = nullptr;
  *last_ = job;
  last_ = &job->next_job;
  ++queued_;
  if (queued_ > idle_ && static_cast<int>(threads_.size()) < threads_max_) {
    threads_.emplace_back(&BlockingPool::ThreadMain, this);
  } else {
    wake_.notify_one();
  }
}

void BlockingPool::ThreadMain() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), "blocking");
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    ++idle_;
    wake_.wait(lock, [this] { return stopping_ || first_ != nullptr; });
    --idle_;
    if (first_ == nullptr) return;
    Job* job = first_;
    --queued_;
    first_ = job->next_job;
    if (first_ == nullptr) last_ = &first_;
    lock.unlock();
    job->work(job);
    job->home->Post(job);
    lock.lock();
  }
}

}  // namespace sluice
