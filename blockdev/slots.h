// A number of slots that coroutines take and give back; who finds none waits
// in arrival order.
//   co_await slots.Take();
//   …
//   slots.Give();
//
// Home: one reactor. Bound: the slots; the waiters are their own frames.
#pragma once

#include <coroutine>
#include <cstdint>

#include "core/check.h"
#include "core/reactor.h"

namespace sluice::blockdev {

class Slots {
 public:
  Slots(Reactor* reactor, uint32_t count)
      : reactor_(reactor), count_(count), free_(count) {}
  ~Slots() { SLUICE_CHECK(free_ == count_); }
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;

  class Taking : public Waiter {
   public:
    explicit Taking(Slots* slots) : slots_(slots) {}
    bool await_ready() noexcept {
      if (slots_->free_ == 0) return false;
      --slots_->free_;
      return true;
    }
    void await_suspend(std::coroutine_handle<> handle) {
      frame = handle;
      slots_->waiting_.PushBack(this);
    }
    void await_resume() const noexcept {}

   private:
    Slots* slots_;
  };
  Taking Take() { return Taking(this); }

  // Hands the slot to the first waiter, so that nobody overtakes it.
  void Give() {
    Waiter* next = waiting_.PopFront();
    if (next != nullptr) {
      reactor_->Schedule(next);
      return;
    }
    SLUICE_DCHECK(free_ < count_);
    ++free_;
  }

  uint32_t free_count() const { return free_; }

 private:
  Reactor* reactor_;
  const uint32_t count_;
  uint32_t free_;  // 0 while anybody waits
  IntrusiveList<Waiter> waiting_;
};

}  // namespace sluice::blockdev
