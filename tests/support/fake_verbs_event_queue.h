// Events with a descriptor that is readable while there are some: completion
// channels, event channels, asynchronous events. Guarded by the fabric's mutex.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "core/check.h"

namespace sluice::fake {

template <typename T>
class EventQueue {
 public:
  EventQueue() : fd_(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)) {
    SLUICE_CHECK(fd_ >= 0);
  }
  ~EventQueue() { close(fd_); }
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  int fd() const { return fd_; }
  bool empty() const { return events_.empty(); }

  void Push(T event) {
    events_.push_back(std::move(event));
    const uint64_t one = 1;
    SLUICE_CHECK(write(fd_, &one, sizeof(one)) == sizeof(one));
  }

  // Takes the oldest event. With none, EAGAIN if the user made the descriptor
  // O_NONBLOCK; else waits, with `lock` released. Returns 0 or an errno.
  int Take(std::unique_lock<std::mutex>* lock, T* event) {
    while (events_.empty()) {
      if ((fcntl(fd_, F_GETFL) & O_NONBLOCK) != 0) return EAGAIN;
      lock->unlock();
      pollfd readable = {.fd = fd_, .events = POLLIN, .revents = 0};
      const int result = poll(&readable, 1, -1);
      const int error = errno;
      lock->lock();
      if (result < 0) return error;
    }
    *event = std::move(events_.front());
    events_.pop_front();
    Consume();
    return 0;
  }

  // Removes the events that match, and returns them in order.
  template <typename Predicate>
  std::vector<T> Extract(Predicate matches) {
    std::vector<T> extracted;
    std::deque<T> kept;
    for (T& event : events_) {
      if (matches(event)) {
        extracted.push_back(std::move(event));
        Consume();
      } else {
        kept.push_back(std::move(event));
      }
    }
    events_ = std::move(kept);
    return extracted;
  }

 private:
  // The counter equals the number of events, so this never blocks.
  void Consume() {
    uint64_t one = 0;
    SLUICE_CHECK(read(fd_, &one, sizeof(one)) == sizeof(one));
  }

  const int fd_;
  std::deque<T> events_;
};

}  // namespace sluice::fake
