// Events in order of arrival, with a descriptor that is readable while there
// are some: completion channels, event channels, asynchronous events. The
// descriptor stands in for a system call of each event: it is written once for
// all that come before somebody takes the last.
//
// Thread-safe. Grows with what nobody takes; does not allocate otherwise.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/check.h"

namespace sluice::iwarp {

template <typename T>
class EventQueue {
 public:
  EventQueue() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~EventQueue() {
    if (fd_ >= 0) close(fd_);
  }
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  // -1 when the process has no descriptor left.
  int fd() const { return fd_; }

  // `quietly` when the caller takes events next and says Announce() if some
  // are left then.
  void Push(const T& event, bool quietly) {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
    if (!quietly) Signal();
  }

  // False: there is none. `taken(event)` runs before anybody could look for it
  // here in vain: the place to count it as delivered.
  template <typename Taken>
  bool Take(T* event, Taken taken) {
    const std::lock_guard lock(mutex_);
    const bool found = first_ < events_.size();
    if (found) {
      *event = events_[first_++];
      taken(*event);
    }
    if (first_ == events_.size()) {
      events_.clear();
      first_ = 0;
      Unsignal();
    } else if (first_ >= kTakenMax && first_ >= events_.size() / 2) {
      // Somebody always comes before the last is taken.
      events_.erase(events_.begin(),
                    events_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
    return found;
  }

  // Makes the descriptor readable if there are events, or if `anyway`: once,
  // until somebody has found the queue empty.
  void Announce(bool anyway) {
    const std::lock_guard lock(mutex_);
    if (anyway || first_ < events_.size()) Signal();
  }

  // Takes out the events that `which(event)` picks.
  template <typename Which>
  std::vector<T> Extract(Which which) {
    const std::lock_guard lock(mutex_);
    std::vector<T> taken;
    std::vector<T> kept;
    for (size_t i = first_; i < events_.size(); ++i) {
      (which(events_[i]) ? taken : kept).push_back(events_[i]);
    }
    events_ = std::move(kept);
    first_ = 0;
    if (events_.empty()) Unsignal();
    return taken;
  }

  bool empty() const {
    const std::lock_guard lock(mutex_);
    return first_ == events_.size();
  }

  size_t capacity() const {
    const std::lock_guard lock(mutex_);
    return events_.capacity();
  }

 private:
  // Taken ones stay that long, or until they are half of all.
  static constexpr size_t kTakenMax = 64;

  void Signal() {
    if (signalled_) return;
    const uint64_t one = 1;
    signalled_ = write(fd_, &one, sizeof(one)) == sizeof(one);
  }
  void Unsignal() {
    if (!signalled_) return;
    uint64_t count;
    signalled_ = read(fd_, &count, sizeof(count)) != sizeof(count);
  }

  const int fd_;
  mutable std::mutex mutex_;
  std::vector<T> events_;  // those before first_ are taken
  size_t first_ = 0;
  bool signalled_ = false;
};

}  // namespace sluice::iwarp
