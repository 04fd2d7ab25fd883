// Timers of one reactor: a binary heap of nodes that live in their owners.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/check.h"

namespace sluice {

// A callback at a time. Not movable; destroying an armed one is a bug.
class Timer {
 public:
  using Callback = void (*)(void* context);

  Timer(Callback callback, void* context)
      : callback_(callback), context_(context) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() { SLUICE_CHECK(!armed()); }

  bool armed() const { return index_ != kUnarmed; }
  int64_t deadline_nanos() const { return deadline_nanos_; }

 private:
  friend class TimerHeap;
  static constexpr size_t kUnarmed = SIZE_MAX;

  Callback callback_;
  void* context_;
  int64_t deadline_nanos_ = 0;
  size_t index_ = kUnarmed;
};

class TimerHeap {
 public:
  static constexpr int64_t kNever = INT64_MAX;

  TimerHeap() { heap_.reserve(1024); }

  // Arms or moves the timer. Deadline on the reactor's clock.
  void Arm(Timer* timer, int64_t deadline_nanos);
  void Cancel(Timer* timer);  // does nothing when it is not armed
  bool empty() const { return heap_.empty(); }
  int64_t next_deadline_nanos() const {
    return heap_.empty() ? kNever : heap_.front()->deadline_nanos_;
  }
  // Runs what is due, at most `limit`; returns how many ran.
  int RunDue(int64_t now_nanos, int limit);

 private:
  void Place(Timer* timer, size_t index);
  void SiftUp(size_t index);
  void SiftDown(size_t index);

  std::vector<Timer*> heap_;
};

}  // namespace sluice
