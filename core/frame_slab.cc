#include "core/frame_slab.h"

#include <array>
#include <new>
#include <vector>

#include "core/check.h"

#ifdef __SANITIZE_ADDRESS__
#define SLUICE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLUICE_ASAN 1
#endif
#endif

#ifdef SLUICE_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace sluice {
namespace {

constexpr size_t kClassBytes = 128;
constexpr size_t kClassCount = 32;  // 128 bytes to 4 KiB
constexpr size_t kChunkBytes = 64 * 1024;

struct FreeFrame {
  FreeFrame* next;
};

// Free frames are poisoned, so that ASan sees a use after the end.
#ifdef SLUICE_ASAN
void Poison(void* memory, size_t bytes) {
  ASAN_POISON_MEMORY_REGION(memory, bytes);
}
void Unpoison(void* memory, size_t bytes) {
  ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
}
#else
void Poison(void*, size_t) {}
void Unpoison(void*, size_t) {}
#endif

class ThreadSlab {
 public:
  ~ThreadSlab() {
    for (void* chunk : chunks_) {
      Unpoison(chunk, kChunkBytes);
      ::operator delete(chunk);
    }
  }

  void* Allocate(size_t bytes) {
    if (bytes > stats_.largest_bytes) stats_.largest_bytes = bytes;
    ++stats_.live_frames;
    const size_t index = (bytes - 1) / kClassBytes;
    if (index >= kClassCount) {
      ++stats_.oversized;
      return ::operator new(bytes);
    }
    if (free_[index] == nullptr) Grow(index);
    FreeFrame* frame = free_[index];
    Unpoison(frame, (index + 1) * kClassBytes);
    free_[index] = frame->next;
    return frame;
  }

  void Free(void* memory, size_t bytes) {
    SLUICE_DCHECK(stats_.live_frames > 0);
    --stats_.live_frames;
    const size_t index = (bytes - 1) / kClassBytes;
    if (index >= kClassCount) {
      ::operator delete(memory);
      return;
    }
    Push(index, memory);
  }

  const FrameSlab::Stats& stats() const { return stats_; }

 private:
  void Push(size_t index, void* memory) {
    free_[index] = new (memory) FreeFrame{free_[index]};
    Poison(memory, (index + 1) * kClassBytes);
  }

  void Grow(size_t index) {
    char* chunk = static_cast<char*>(::operator new(kChunkBytes));
    chunks_.push_back(chunk);
    ++stats_.chunks;
    const size_t frame_bytes = (index + 1) * kClassBytes;
    const size_t frames = kChunkBytes / frame_bytes;
    for (size_t i = 0; i < frames; ++i) Push(index, chunk + i * frame_bytes);
  }

  std::array<FreeFrame*, kClassCount> free_{};
  std::vector<void*> chunks_;
  FrameSlab::Stats stats_;
};

thread_local ThreadSlab slab;

}  // namespace

void* FrameSlab::Allocate(size_t bytes) { return slab.Allocate(bytes); }
void FrameSlab::Free(void* frame, size_t bytes) { slab.Free(frame, bytes); }
FrameSlab::Stats FrameSlab::ThreadStats() { return slab.stats(); }

}  // namespace sluice
