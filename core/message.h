// What reactors say to one another: a node in the sender's memory with a
// function to run on the receiver's thread. No copy, no allocation; the sender
// keeps the node alive until it has run.
#pragma once

#include <atomic>

namespace sluice {

struct Message {
  // Runs on the receiver. May free or reuse the message.
  void (*run)(Message* message) = nullptr;
  Message* next = nullptr;  // the inbox's
};

// Many senders, one receiver. The atomic head is the release/acquire pair that
// TSan sees; the wake-up that follows (MSG_RING, eventfd) need not be one.
class Inbox {
 public:
  // Thread-safe. The message is the inbox's until it runs.
  void Push(Message* message) {
    Message* head = head_.load(std::memory_order_relaxed);
    do {
      message->next = head;
    } while (!head_.compare_exchange_weak(
        head, message, std::memory_order_seq_cst, std::memory_order_relaxed));
  }

  // Receiver only.
  bool empty() const {
    return first_ == nullptr &&
           head_.load(std::memory_order_seq_cst) == nullptr;
  }

  // Receiver only: runs at most `limit` of what is there, oldest first; returns
  // how many. What they push runs in the next call.
  int Run(int limit) {
    if (first_ == nullptr) TakeAll();
    int ran = 0;
    while (first_ != nullptr && ran < limit) {
      Message* message = first_;
      first_ = message->next;
      message->run(message);
      ++ran;
    }
    return ran;
  }

 private:
  // The senders' stack, turned over.
  void TakeAll() {
    if (head_.load(std::memory_order_relaxed) == nullptr) return;
    Message* reversed = head_.exchange(nullptr, std::memory_order_acquire);
    while (reversed != nullptr) {
      Message* next = reversed->next;
      reversed->next = first_;
      first_ = reversed;
      reversed = next;
    }
  }

  std::atomic<Message*> head_{nullptr};
  Message* first_ = nullptr;  // taken, not run yet
};

}  // namespace sluice
