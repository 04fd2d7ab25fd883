#include "core/signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/test_reactor.h"

namespace sluice {
namespace {

void Note(void* context, int signal) {
  static_cast<std::vector<int>*>(context)->push_back(signal);
}

TEST(SignalWatch, HandsSignalsToItsHandler) {
  BlockSignals({SIGUSR1, SIGUSR2});
  TestReactor reactor(TestClock::kReal);
  std::vector<int> seen;
  auto watch =
      SignalWatch::Create(reactor.get(), {SIGUSR1, SIGUSR2}, &Note, &seen);
  ASSERT_TRUE(watch.ok());

  for (size_t i = 1; i <= 10; ++i) {
    kill(getpid(), i % 2 == 0 ? SIGUSR1 : SIGUSR2);
    ASSERT_TRUE(reactor.RunUntil([&] { return seen.size() == i; })) << i;
    EXPECT_EQ(seen.back(), i % 2 == 0 ? SIGUSR1 : SIGUSR2);
  }
}

TEST(SignalWatch, ASignalWakesASleeper) {
  BlockSignals({SIGUSR1});
  ReactorOptions options;
  options.spin.mode = PollMode::kEvent;
  TestReactor reactor(TestClock::kReal, options);
  std::vector<int> seen;
  auto watch = SignalWatch::Create(reactor.get(), {SIGUSR1}, &Note, &seen);
  ASSERT_TRUE(watch.ok());
  std::thread sender([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    kill(getpid(), SIGUSR1);
  });

  while (seen.empty()) {
    if (reactor->Tick() == 0) reactor->Sleep(absl::InfiniteDuration());
  }

  sender.join();
  EXPECT_EQ(seen, (std::vector<int>{SIGUSR1}));
}

TEST(SignalWatch, SeesASignalThatCameBefore) {
  BlockSignals({SIGUSR1});
  kill(getpid(), SIGUSR1);
  TestReactor reactor;
  std::vector<int> seen;

  auto watch = SignalWatch::Create(reactor.get(), {SIGUSR1}, &Note, &seen);

  ASSERT_TRUE(watch.ok());
  EXPECT_TRUE(reactor.RunUntil([&] { return !seen.empty(); }));
}

}  // namespace
}  // namespace sluice
