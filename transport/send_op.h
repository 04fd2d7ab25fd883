// The two things a command waits for on its queue pair: credit to post, and the
// completion of what it posted. Both live in the waiting frame. Private to
// queue_pair*.cc.
#pragma once

#include <coroutine>

#include "transport/queue_pair.h"

namespace sluice::transport {

// co_await of one: true when at least `sends` credits (and as many of the read
// depth, for READs) were granted, false when the queue pair is down.
class QueuePair::CreditWait : public Waiter {
 public:
  CreditWait(QueuePair* qp, uint32_t sends_wanted, uint32_t reads_wanted)
      : sends(sends_wanted), reads(reads_wanted), qp_(qp) {}

  bool await_ready() {
    if (!qp_->up()) return true;
    granted = qp_->credit_waiters_.empty() && qp_->TakeCredits(sends, reads);
    return granted;
  }
  void await_suspend(std::coroutine_handle<> handle) {
    frame = handle;
    qp_->credit_waiters_.PushBack(this);
    ++qp_->stats_.credit_waits;
  }
  bool await_resume() const { return granted; }

  const uint32_t sends;
  const uint32_t reads;
  bool granted = false;

 private:
  QueuePair* qp_;
};

// A chain of work requests whose last one is signalled. co_await of one: true
// when all of them succeeded. Holds a send slot until then.
class QueuePair::SendOp : public Waiter {
 public:
  SendOp(QueuePair* qp, bool reads);
  ~SendOp() { SLUICE_CHECK(done); }

  bool await_ready() const { return done; }
  void await_suspend(std::coroutine_handle<> handle) { frame = handle; }
  bool await_resume() const { return !failed; }

  const bool is_read;
  uint16_t slot = 0;
  uint16_t work_requests = 0;  // credits it holds
  uint32_t vouches_for = 0;    // the silent work requests before this number
  bool failed = false;
  bool done = false;
};

}  // namespace sluice::transport
