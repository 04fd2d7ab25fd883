// Where coroutine frames come from: a free list per size class, per thread, so
// that a command costs no allocation once the slab is warm. Frames are freed
// on the thread that made them. Thread-safe (each thread has its own).
//
// Bound: the frames alive at once, which the contexts of the queues bound;
// memory is kept for the next frame and returned when the thread ends.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

class FrameSlab {
 public:
  struct Stats {
    uint64_t chunks = 0;       // taken from the heap; still when warm
    uint64_t live_frames = 0;  // allocated now
    size_t largest_bytes = 0;  // largest frame asked for
    uint64_t oversized = 0;    // larger than any class: straight to the heap
  };

  static void* Allocate(size_t bytes);
  static void Free(void* frame, size_t bytes);

  static Stats ThreadStats();
};

}  // namespace sluice
