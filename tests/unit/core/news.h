// Counts what a thread takes from the heap with new: `news`. It replaces the
// operators of the whole program, so one file of it includes this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace sluice {

inline thread_local uint64_t news = 0;

}  // namespace sluice

// Not inlined: g++ would take malloc and delete for a mismatch.
// NOLINTBEGIN(misc-definitions-in-headers)
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++sluice::news;
  void* memory = std::malloc(bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
// NOLINTEND(misc-definitions-in-headers)
