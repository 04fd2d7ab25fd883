#include "core/reactor.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/task.h"
#include "tests/support/test_reactor.h"
#include "tests/unit/core/pause.h"
#include "tests/unit/core/ring_masks.h"

namespace sluice {
namespace {

// Counts its runs; may be posted from anywhere.
struct Ping : Message {
  Ping() { run = &Run; }
  static void Run(Message* message) {
    auto* self = static_cast<Ping*>(message);
    if (self->order != nullptr) self->order->push_back(self->number);
    self->runs.fetch_add(1);
  }

  std::atomic<int> runs{0};
  int number = 0;
  std::vector<int>* order = nullptr;
};

// Completions by hand, as a CQ would have them.
class FakeSource : public PollSource {
 public:
  int Poll() override {
    ++polls;
    const int found = pending;
    pending = 0;
    done += found;
    if (on_poll != nullptr) on_poll(context);
    return found;
  }
  bool Arm() override {
    ++arms;
    pending += appear_when_armed;
    appear_when_armed = 0;
    return true;
  }
  void Flush() override { ++flushes; }
  void OnTimeout() override { ++timeouts; }

  int pending = 0;
  int appear_when_armed = 0;  // between the empty poll and the arming
  int done = 0;
  int polls = 0;
  int arms = 0;
  int flushes = 0;
  int timeouts = 0;
  void (*on_poll)(void* context) = nullptr;
  void* context = nullptr;
};

int64_t ThreadCpuNanos() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  const auto nanos = [](const timeval& time) {
    return time.tv_sec * kNanosPerSecond + time.tv_usec * kNanosPerMicro;
  };
  return nanos(usage.ru_utime) + nanos(usage.ru_stime);
}

int64_t Now() { return Clock::Real()->NowNanos(); }

class ReactorTest : public testing::TestWithParam<RingMask> {
 protected:
  ReactorOptions Options(PollMode mode = PollMode::kEvent) {
    ReactorOptions options;
    options.spin.mode = mode;
    options.ring.features = GetParam().features;
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Features, ReactorTest, testing::ValuesIn(kRingMasks),
                         &RingMaskName<testing::TestParamInfo<RingMask>>);

TEST_P(ReactorTest, IsCurrentOnItsThreadOnly) {
  EXPECT_EQ(Reactor::Current(), nullptr);
  TestReactor reactor(TestClock::kFake, Options());

  EXPECT_TRUE(reactor->IsCurrent());
  bool elsewhere = true;
  std::thread([&] { elsewhere = reactor->IsCurrent(); }).join();
  EXPECT_FALSE(elsewhere);
}

TEST_P(ReactorTest, RunsItsOwnMessagesInOrder) {
  TestReactor reactor(TestClock::kFake, Options());
  std::vector<int> order;
  std::array<Ping, 3> pings;
  for (int i = 0; i < 3; ++i) {
    Ping& ping = pings[static_cast<size_t>(i)];
    ping.number = i;
    ping.order = &order;
    reactor->Post(&ping);
  }
  EXPECT_TRUE(order.empty());

  reactor.RunReady();

  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

// No reactor on the sending thread: by eventfd.
TEST_P(ReactorTest, AThreadWakesASleeper) {
  TestReactor reactor(TestClock::kReal, Options());
  Ping ping;
  std::thread sender([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    reactor->Post(&ping);
  });

  while (ping.runs == 0) {
    if (reactor->Tick() == 0) reactor->Sleep(absl::InfiniteDuration());
  }

  sender.join();
  EXPECT_GE(reactor->stats().sleeps, 1u);
}

// Posts to a reactor that sleeps, from a tick of another: by MSG_RING where
// that is not masked off.
struct Relay : Message {
  Relay(Reactor* to, Message* pass_on) : target(to), message(pass_on) {
    run = &Run;
  }
  static void Run(Message* posted) {
    auto* self = static_cast<Relay*>(posted);
    self->target->Post(self->message);
  }
  Reactor* target;
  Message* message;
};

TEST_P(ReactorTest, AReactorWakesASleeper) {
  TestReactorThread first(Options());
  TestReactorThread second(Options());
  Ping ping;

  for (int i = 1; i <= 200; ++i) {
    Relay relay(second.reactor(), &ping);
    first.reactor()->Post(&relay);
    while (ping.runs < i) std::this_thread::yield();
    if (i % 20 == 0) {  // let both fall asleep
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  uint64_t sleeps = 0;
  second.Run([&] { sleeps = second.reactor()->stats().sleeps; });
  EXPECT_GT(sleeps, 0u);
}

// Outside its tick nobody submits the sender's ring.
TEST_P(ReactorTest, APostOutsideATickWakesASleeper) {
  TestReactor here(TestClock::kFake, Options());
  TestReactorThread there(Options());
  Ping ping;
  for (int i = 1; i <= 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));

    there.reactor()->Post(&ping);

    while (ping.runs < i) std::this_thread::yield();
  }
}

TEST_P(ReactorTest, NoWakeUpIsLost) {
  TestReactorThread reactor(Options());
  std::vector<std::thread> senders;
  for (int sender = 0; sender < 2; ++sender) {
    senders.emplace_back([&reactor] {
      Ping ping;
      for (int i = 1; i <= 5000; ++i) {
        reactor.reactor()->Post(&ping);
        while (ping.runs < i) std::this_thread::yield();
      }
    });
  }
  for (std::thread& sender : senders) sender.join();
}

TEST_P(ReactorTest, WhatWasPostedBeforeStopRuns) {
  std::array<Ping, 1000> pings;
  {
    TestReactorThread reactor(Options());
    for (Ping& ping : pings) reactor.reactor()->Post(&ping);
  }
  for (const Ping& ping : pings) EXPECT_EQ(ping.runs, 1);
}

TEST_P(ReactorTest, MayDieAsSoonAsItIsStopped) {
  for (int i = 0; i < 50; ++i) {
    TestReactorThread reactor(Options());
    if (i % 2 == 0) std::this_thread::yield();
  }
}

struct StopInTick : Message {
  explicit StopInTick(Reactor* on) : reactor(on) { run = &Run; }
  static void Run(Message* message) {
    static_cast<StopInTick*>(message)->reactor->Stop();
  }
  Reactor* reactor;
};

TEST_P(ReactorTest, StopsFromWithinAndRunsAgain) {
  TestReactor reactor(TestClock::kReal, Options());
  StopInTick stop(reactor.get());
  for (int i = 0; i < 3; ++i) {
    reactor->Post(&stop);
    reactor->Run();
  }
  reactor->Stop();
  reactor->Run();  // returns
}

TEST_P(ReactorTest, ManyMessagesAreBoundedPerTick) {
  TestReactor reactor(TestClock::kFake, Options());
  std::array<Ping, 600> pings;
  for (Ping& ping : pings) reactor->Post(&ping);

  EXPECT_EQ(reactor->Tick(), 256);
  EXPECT_EQ(reactor->Tick(), 256);
  EXPECT_EQ(reactor->Tick(), 88);
}

// R9: the completion comes exactly between the empty poll and the arming, so
// that nothing will ever announce it.
TEST_P(ReactorTest, FindsWhatCameBeforeItArmed) {
  ReactorOptions options = Options();
  options.safety_poll_busy = absl::InfiniteDuration();
  options.safety_poll_idle = absl::InfiniteDuration();
  TestReactor reactor(TestClock::kFake, options);
  FakeSource source;
  reactor->AddPollSource(&source);
  while (reactor->Tick() > 0) {
  }
  source.appear_when_armed = 1;

  reactor->Sleep(absl::InfiniteDuration());

  EXPECT_EQ(source.done, 1);
  EXPECT_EQ(source.arms, 1);
  EXPECT_EQ(source.timeouts, 0);
  EXPECT_EQ(reactor->stats().rearm_found, 1u);
  EXPECT_EQ(reactor->stats().sleeps, 0u);
  reactor->RemovePollSource(&source);
}

TEST_P(ReactorTest, TheSafetyPollLooksWithin10MsWhenBusy) {
  TestReactor reactor(TestClock::kReal, Options());
  FakeSource source;
  reactor->AddPollSource(&source);
  source.pending = 1;
  while (reactor->Tick() > 0) {
  }
  const int64_t begin = Now();

  while (source.timeouts == 0) reactor->Sleep(absl::InfiniteDuration());

  const int64_t slept = Now() - begin;
  EXPECT_GE(slept, 9 * kNanosPerMilli);
  EXPECT_LT(slept, 200 * kNanosPerMilli);  // 10 ms on a machine that is idle
  reactor->RemovePollSource(&source);
}

// Keep Alives a few times a second must not cost a poll each 10 ms.
TEST_P(ReactorTest, SafetyPollsThatFindNothingGetRarer) {
  ReactorOptions options = Options();
  options.safety_poll_busy = absl::Milliseconds(2);
  options.safety_poll_idle = absl::Milliseconds(50);
  TestReactor reactor(TestClock::kReal, options);
  FakeSource source;
  reactor->AddPollSource(&source);
  source.pending = 1;
  while (reactor->Tick() > 0) {
  }

  for (const int64_t wanted_millis : {2, 16, 50, 50}) {
    const int64_t begin = Now();
    source.timeouts = 0;
    while (source.timeouts == 0) reactor->Sleep(absl::InfiniteDuration());
    EXPECT_GE(Now() - begin, wanted_millis * kNanosPerMilli * 9 / 10);
  }
  source.pending = 1;
  EXPECT_GT(reactor->Tick(), 0);
  const uint64_t sleeps = reactor->stats().sleeps;
  const int64_t begin = Now();
  for (int i = 0; i < 2; ++i) reactor->Sleep(absl::InfiniteDuration());
  EXPECT_EQ(reactor->stats().sleeps, sleeps + 2);
  EXPECT_GE(Now() - begin, 17 * kNanosPerMilli);  // 2 and 16 again
  reactor->RemovePollSource(&source);
}

TEST_P(ReactorTest, TheSafetyPollIsRareWhenIdle) {
  ReactorOptions options = Options();
  options.safety_poll_idle = absl::Milliseconds(60);
  TestReactor reactor(TestClock::kFake, options);
  FakeSource source;
  reactor->AddPollSource(&source);
  reactor.Advance(absl::Seconds(2));
  reactor.Advance(absl::Seconds(2));
  const int64_t begin = Now();

  while (source.timeouts == 0) reactor->Sleep(absl::InfiniteDuration());

  EXPECT_GE(Now() - begin, 59 * kNanosPerMilli);
  reactor->RemovePollSource(&source);
}

TEST_P(ReactorTest, ASleepCutShortIsNoSafetyPoll) {
  TestReactor reactor(TestClock::kFake, Options());
  FakeSource source;
  reactor->AddPollSource(&source);
  reactor.RunReady();

  reactor->Sleep(absl::Milliseconds(1));

  EXPECT_EQ(source.timeouts, 0);
  EXPECT_EQ(reactor->stats().sleeps, 1u);
  reactor->RemovePollSource(&source);
}

TEST_P(ReactorTest, FlushesAtTheEndOfEachTick) {
  TestReactor reactor(TestClock::kFake, Options());
  FakeSource source;
  reactor->AddPollSource(&source);

  reactor->Tick();
  reactor->Tick();

  EXPECT_EQ(source.polls, 2);
  EXPECT_EQ(source.flushes, 2);
  reactor->RemovePollSource(&source);
}

struct Swap {
  static void OnPoll(void* context) {
    auto* self = static_cast<Swap*>(context);
    self->leaver.on_poll = nullptr;
    self->reactor->RemovePollSource(&self->leaver);
    self->reactor->RemovePollSource(&self->neighbour);
    for (FakeSource& source : self->newcomers) {
      self->reactor->AddPollSource(&source);
    }
  }
  Reactor* reactor;
  FakeSource leaver;
  FakeSource neighbour;
  std::array<FakeSource, 20> newcomers;
};

TEST_P(ReactorTest, SourcesComeAndGoWithinAPoll) {
  TestReactor reactor(TestClock::kFake, Options());
  Swap swap;
  swap.reactor = reactor.get();
  swap.leaver.on_poll = &Swap::OnPoll;
  swap.leaver.context = &swap;
  reactor->AddPollSource(&swap.leaver);
  reactor->AddPollSource(&swap.neighbour);

  reactor->Tick();
  reactor->Tick();

  EXPECT_EQ(swap.leaver.polls, 1);
  EXPECT_EQ(swap.neighbour.polls, 0);
  for (FakeSource& source : swap.newcomers) {
    EXPECT_EQ(source.polls, 2);
    reactor->RemovePollSource(&source);
  }
}

struct Alarm {
  explicit Alarm(Reactor* on) : reactor(on), timer(&Alarm::Fire, this) {}
  static void Fire(void* context) {
    auto* self = static_cast<Alarm*>(context);
    ++self->fired;
    if (self->period_nanos < 0) return;
    self->reactor->ArmTimer(&self->timer,
                            self->reactor->now_nanos() + self->period_nanos);
  }
  Reactor* reactor;
  Timer timer;
  int fired = 0;
  int64_t period_nanos = -1;
};

TEST_P(ReactorTest, TimersAreBoundedPerTick) {
  TestReactor reactor(TestClock::kFake, Options());
  std::vector<std::unique_ptr<Alarm>> alarms;
  for (int i = 0; i < 100; ++i) {
    alarms.push_back(std::make_unique<Alarm>(reactor.get()));
    reactor->ArmTimer(&alarms.back()->timer, 0);
  }

  EXPECT_EQ(reactor->Tick(), 64);
  EXPECT_EQ(reactor->Tick(), 36);
}

TEST_P(ReactorTest, ATimerThatIsAlwaysDueDoesNotStarveMessages) {
  TestReactor reactor(TestClock::kFake, Options());
  Alarm alarm(reactor.get());
  alarm.period_nanos = 0;
  reactor->ArmTimer(&alarm.timer, 0);
  Ping ping;
  reactor->Post(&ping);

  EXPECT_EQ(reactor->Tick(), 65);

  EXPECT_EQ(ping.runs, 1);
  reactor->CancelTimer(&alarm.timer);
}

TEST_P(ReactorTest, ATimerEndsTheSleep) {
  TestReactor reactor(TestClock::kReal, Options());
  Alarm alarm(reactor.get());
  const int64_t begin = Now();
  reactor->ArmTimer(&alarm.timer, begin + 20 * kNanosPerMilli);

  while (alarm.fired == 0) {
    if (reactor->Tick() == 0) reactor->Sleep(absl::InfiniteDuration());
  }

  EXPECT_GE(Now() - begin, 20 * kNanosPerMilli);
  EXPECT_GE(reactor->stats().sleeps, 1u);
  EXPECT_LE(reactor->stats().sleeps, 5u);
}

Task<void> WaitInLine(Waiter* waiter, std::vector<int>* order, int number);

// Suspends until the waiter is scheduled.
struct InLine {
  Waiter* waiter;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> frame) { waiter->frame = frame; }
  void await_resume() const noexcept {}
};

InLine Line(Waiter* waiter) { return InLine{waiter}; }

Task<void> WaitInLine(Waiter* waiter, std::vector<int>* order, int number) {
  co_await Line(waiter);
  order->push_back(number);
}

TEST_P(ReactorTest, ResumesInOrderAndNotInSchedule) {
  TestReactor reactor(TestClock::kFake, Options());
  std::array<Waiter, 300> waiters;
  std::vector<int> order;
  Scope scope;
  for (size_t i = 0; i < waiters.size(); ++i) {
    scope.Spawn(WaitInLine(&waiters[i], &order, static_cast<int>(i)));
    reactor->Schedule(&waiters[i]);
  }
  EXPECT_TRUE(order.empty());

  EXPECT_EQ(reactor->Tick(), 256);
  EXPECT_EQ(reactor->Tick(), 44);

  EXPECT_EQ(order.size(), waiters.size());
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(scope.size(), 0u);
}

struct EventDrain {
  static void OnReadable(void* context) {
    auto* self = static_cast<EventDrain*>(context);
    uint64_t count;
    while (read(self->fd, &count, sizeof(count)) == sizeof(count)) {
      self->total += count;
    }
  }
  int fd;
  uint64_t total = 0;
};

TEST_P(ReactorTest, AWatchedDescriptorWakesASleeper) {
  TestReactor reactor(TestClock::kReal, Options());
  EventDrain drain{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  FdWatch* watch =
      reactor->ring()->Watch(drain.fd, &EventDrain::OnReadable, &drain);
  std::thread writer([&] {
    const uint64_t one = 1;
    for (int i = 0; i < 2000; ++i) {
      SLUICE_CHECK(write(drain.fd, &one, sizeof(one)) == sizeof(one));
      if (i % 100 == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  });

  while (drain.total < 2000) {
    if (reactor->Tick() == 0) reactor->Sleep(absl::InfiniteDuration());
  }

  writer.join();
  reactor->ring()->Unwatch(watch);
  close(drain.fd);
  EXPECT_EQ(reactor->ring()->overflows(), 0u);
}

// 1 % of the half second that it idles; sanitizers make each wake-up dearer.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kIdleCpuNanosMax = 25 * kNanosPerMilli;
#else
constexpr int64_t kIdleCpuNanosMax = 5 * kNanosPerMilli;
#endif

// Processor time that an idle reactor's thread takes in half a second.
int64_t IdleCpuNanos(const ReactorOptions& options, ReactorStats* stats) {
  TestReactorThread thread(options);
  FakeSource source;
  thread.Run([&] { thread.reactor()->AddPollSource(&source); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  int64_t cpu_nanos = 0;
  thread.Run([&] { cpu_nanos = -ThreadCpuNanos(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  thread.Run([&] { cpu_nanos += ThreadCpuNanos(); });
  thread.Run([&] {
    *stats = thread.reactor()->stats();
    thread.reactor()->RemovePollSource(&source);
  });
  return cpu_nanos;
}

TEST_P(ReactorTest, AnIdleOneReallySleeps) {
  for (const PollMode mode : {PollMode::kEvent, PollMode::kHybrid}) {
    ReactorStats stats;
    const int64_t cpu_nanos = IdleCpuNanos(Options(mode), &stats);

    EXPECT_LT(cpu_nanos, kIdleCpuNanosMax);
    EXPECT_GT(stats.sleeps, 0u);
    if (mode == PollMode::kEvent) {
      EXPECT_EQ(stats.spins, 0u);
    }
  }
}

TEST_P(ReactorTest, PollModeNeverSleeps) {
  ReactorStats stats;
  TestReactorThread thread(Options(PollMode::kPoll));
  Ping ping;
  for (int i = 1; i <= 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    thread.reactor()->Post(&ping);
    while (ping.runs < i) std::this_thread::yield();
  }
  thread.Run([&] { stats = thread.reactor()->stats(); });

  EXPECT_EQ(stats.sleeps, 0u);
  EXPECT_GT(stats.spins, 0u);
}

TEST_P(ReactorTest, HybridSpinsFirstThenSleeps) {
  ReactorOptions options = Options(PollMode::kHybrid);
  options.spin.fixed_spin = absl::Milliseconds(2);
  ReactorStats stats;
  TestReactorThread thread(options);
  // Again, where the machine took all of the 2 ms away from the thread.
  for (int i = 0; i < 100 && stats.spins == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    thread.Run([&] { stats = thread.reactor()->stats(); });
  }

  EXPECT_GT(stats.spins, 0u);
  EXPECT_GT(stats.sleeps, 0u);
}

TEST(Reactor, MeasuresWhatAWakeUpCosts) {
  ReactorOptions options;
  auto thread = ReactorThread::Start(options);
  ASSERT_TRUE(thread.ok());
  int64_t cost_nanos = 0;
  ReactorStats stats;
  (*thread)->Run([&] {
    cost_nanos = (*thread)->reactor()->spin_policy().wake_cost_nanos();
    stats = (*thread)->reactor()->stats();
  });

  EXPECT_GT(cost_nanos, 500);
  EXPECT_LT(cost_nanos, 20 * kNanosPerMilli);
  EXPECT_LT(stats.sleeps, 3u);  // the measuring does not count
}

TEST(Reactor, RecordsHowLongItTakesToWake) {
  ReactorOptions options;
  options.spin.mode = PollMode::kEvent;
  TestReactorThread thread(options);
  uint64_t count = 0;
  // A message finds it asleep, sooner or later.
  for (int i = 0; i < 1000 && count == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    thread.Run([&] { count = thread.reactor()->wake_latency().count(); });
  }

  EXPECT_GT(count, 0u);
}

TEST(Reactor, CannotBePinnedToAProcessorThatIsNotThere) {
  ReactorOptions options;
  options.cpu = 100'000;

  EXPECT_FALSE(Reactor::Create(options).ok());
  EXPECT_EQ(Reactor::Current(), nullptr);
}

TEST(ReactorDeathTest, DyingWithAMessageInsideDies) {
  EXPECT_DEATH(
      {
        Ping ping;
        TestReactor reactor;
        reactor->Post(&ping);
      },
      "CHECK failed: inbox_");
}

TEST(ReactorDeathTest, DyingWithASourceInsideDies) {
  EXPECT_DEATH(
      {
        FakeSource source;
        TestReactor reactor;
        reactor->AddPollSource(&source);
      },
      "CHECK failed: sources_");
}

}  // namespace
}  // namespace sluice
