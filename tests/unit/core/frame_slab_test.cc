#include "core/frame_slab.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "core/task.h"
#include "tests/unit/core/news.h"
#include "tests/unit/core/pause.h"

namespace sluice {
namespace {

Task<int> Inner(Pause* pause) {
  co_await *pause;
  co_return 1;
}

Task<int> Outer(Pause* pause) {
  const int value = co_await Inner(pause);
  co_return value + 1;
}

TEST(FrameSlab, ASteadyStateAllocatesNothing) {
  Pause pause;
  {
    Task<int> warm = Outer(&pause);
    pause.Resume();
  }
  const uint64_t chunks = FrameSlab::ThreadStats().chunks;
  const uint64_t before = news;

  int sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    Task<int> task = Outer(&pause);
    pause.Resume();
    sum += task.await_resume();
  }

  EXPECT_EQ(news, before);
  EXPECT_EQ(FrameSlab::ThreadStats().chunks, chunks);
  EXPECT_EQ(sum, 200'000);
}

TEST(FrameSlab, FramesDoNotOverlap) {
  for (const size_t bytes : {size_t{1}, size_t{128}, size_t{129}, size_t{4096},
                             size_t{4097}, size_t{100'000}}) {
    std::vector<char*> frames(200);
    for (size_t i = 0; i < frames.size(); ++i) {
      frames[i] = static_cast<char*>(FrameSlab::Allocate(bytes));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(frames[i]) % 16, 0u);
      std::memset(frames[i], static_cast<int>(i), bytes);
    }
    for (size_t i = 0; i < frames.size(); ++i) {
      EXPECT_EQ(frames[i][0], static_cast<char>(i));
      EXPECT_EQ(frames[i][bytes - 1], static_cast<char>(i));
      FrameSlab::Free(frames[i], bytes);
    }
  }
  EXPECT_EQ(FrameSlab::ThreadStats().live_frames, 0u);
}

TEST(FrameSlab, EachThreadHasItsOwn) {
  void* frame = FrameSlab::Allocate(100);
  FrameSlab::Stats other;

  std::thread thread([&other] {
    FrameSlab::Free(FrameSlab::Allocate(300), 300);
    other = FrameSlab::ThreadStats();
  });
  thread.join();

  EXPECT_EQ(other.live_frames, 0u);
  EXPECT_EQ(other.largest_bytes, 300u);
  EXPECT_EQ(FrameSlab::ThreadStats().live_frames, 1u);
  FrameSlab::Free(frame, 100);
}

#ifdef __SANITIZE_ADDRESS__
TEST(FrameSlabDeathTest, AUseAfterTheEndIsSeen) {
  auto* frame = static_cast<volatile char*>(FrameSlab::Allocate(100));
  FrameSlab::Free(const_cast<char*>(frame), 100);

  EXPECT_DEATH(frame[50] = 1, "use-after-poison");
}
#endif

}  // namespace
}  // namespace sluice
