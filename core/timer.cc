#include "core/timer.h"

namespace sluice {

void TimerHeap::Arm(Timer* timer, int64_t deadline_nanos) {
  Cancel(timer);
  timer->deadline_nanos_ = deadline_nanos;
  heap_.push_back(timer);
  timer->index_ = heap_.size() - 1;
  SiftUp(timer->index_);
}

void TimerHeap::Cancel(Timer* timer) {
  if (!timer->armed()) return;
  const size_t index = timer->index_;
  SLUICE_CHECK(heap_[index] == timer);
  Timer* last = heap_.back();
  heap_.pop_back();
  timer->index_ = Timer::kUnarmed;
  if (last == timer) return;
  Place(last, index);
  SiftUp(index);
  SiftDown(last->index_);
}

int TimerHeap::RunDue(int64_t now_nanos, int limit) {
  int ran = 0;
  while (ran < limit && !heap_.empty() &&
         heap_.front()->deadline_nanos_ <= now_nanos) {
    Timer* timer = heap_.front();
    Cancel(timer);
    timer->callback_(timer->context_);  // may destroy or arm it again
    ++ran;
  }
  return ran;
}

void TimerHeap::Place(Timer* timer, size_t index) {
  heap_[index] = timer;
  timer->index_ = index;
}

void TimerHeap::SiftUp(size_t index) {
  Timer* timer = heap_[index];
  while (index > 0) {
    const size_t parent = (index - 1) / 2;
    if (heap_[parent]->deadline_nanos_ <= timer->deadline_nanos_) break;
    Place(heap_[parent], index);
    index = parent;
  }
  Place(timer, index);
}

void TimerHeap::SiftDown(size_t index) {
  Timer* timer = heap_[index];
  while (true) {
    size_t child = 2 * index + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() &&
        heap_[child + 1]->deadline_nanos_ < heap_[child]->deadline_nanos_) {
      ++child;
    }
    if (timer->deadline_nanos_ <= heap_[child]->deadline_nanos_) break;
    Place(heap_[child], index);
    index = child;
  }
  Place(timer, index);
}

}  // namespace sluice
