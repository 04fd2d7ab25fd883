#include "core/reactor_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <memory>
#include <thread>

#include "core/async.h"

namespace sluice {
namespace {

Task<int> SleepThenValue(Reactor* reactor, int value) {
  co_await SleepFor(reactor, absl::Milliseconds(1));
  co_return value;
}

Task<void> SleepOnly(Reactor* reactor) {
  co_await SleepFor(reactor, absl::Milliseconds(1));
}

TEST(ReactorThread, RunsAFunctionThereAndReturnsItsResult) {
  auto thread = *ReactorThread::Start(ReactorOptions());

  const std::thread::id there =
      thread->Run([] { return std::this_thread::get_id(); });
  bool current = false;
  thread->Run([&] { current = thread->reactor()->IsCurrent(); });

  EXPECT_NE(there, std::this_thread::get_id());
  EXPECT_TRUE(current);
}

TEST(ReactorThread, RunsATaskToItsEnd) {
  auto thread = *ReactorThread::Start(ReactorOptions());

  for (int i = 0; i < 20; ++i) {
    const int value =
        thread->RunTask([&] { return SleepThenValue(thread->reactor(), i); });
    EXPECT_EQ(value, i);
  }
  thread->RunTask([&] { return SleepOnly(thread->reactor()); });
}

TEST(ReactorThread, IsNamedByItsIndex) {
  ReactorOptions options;
  options.index = 3;
  auto thread = *ReactorThread::Start(options);

  char name[16] = "";
  thread->Run([&] { pthread_getname_np(pthread_self(), name, sizeof(name)); });

  EXPECT_STREQ(name, "reactor-3");
}

TEST(ReactorThread, AReactorThatCannotBeMadeIsAnError) {
  ReactorOptions options;
  options.cpu = 100'000;

  EXPECT_FALSE(ReactorThread::Start(options).ok());
}

}  // namespace
}  // namespace sluice
