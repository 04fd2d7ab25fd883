#include "core/reactor.h"

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace sluice {
namespace {

// Bounds of one tick: what is left over waits for the next.
constexpr int kReapBatch = 128;
constexpr int kResumeBatch = 256;
constexpr int kTimerBatch = 64;
constexpr int kMessageBatch = 256;
// To learn what a wake-up costs: how often, how long after we fell asleep, and
// how long we wait for it.
constexpr size_t kWakeUps = 7;
constexpr std::chrono::microseconds kBeforeWakeUp{200};
constexpr absl::Duration kWakeUpLimit = absl::Milliseconds(20);
// Ticks at the end of Run(), for messages that were posted before Stop().
constexpr int kFinalTicks = 64;

thread_local Reactor* current_reactor = nullptr;

absl::Status PinTo(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  const int rc = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
  if (rc == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(rc, absl::StrCat("pin to processor ", cpu));
}

absl::Status MakeRealtime(int priority) {
  sched_param param = {};
  param.sched_priority = priority;
  const int rc = pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
  if (rc == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(
      rc, absl::StrCat("real-time priority ", priority,
                       " (it needs CAP_SYS_NICE or a limit on rtprio, as "
                       "systemd's LimitRTPRIO)"));
}

}  // namespace

Reactor* Reactor::Current() { return current_reactor; }

Reactor::Reactor(const ReactorOptions& options)
    : options_(options),
      spin_(options.spin),
      safety_nanos_(absl::ToInt64Nanoseconds(options.safety_poll_idle)) {}

absl::StatusOr<std::unique_ptr<Reactor>> Reactor::Create(
    const ReactorOptions& options) {
  SLUICE_CHECK(current_reactor == nullptr);
  std::unique_ptr<Reactor> reactor(new Reactor(options));
  SLUICE_RETURN_IF_ERROR(reactor->Init());
  current_reactor = reactor.get();
  if (options.measure_wake_up) reactor->MeasureWakeUp();
  return reactor;
}

absl::Status Reactor::Init() {
  if (options_.cpu >= 0) SLUICE_RETURN_IF_ERROR(PinTo(options_.cpu));
  if (options_.realtime_priority > 0) {
    SLUICE_RETURN_IF_ERROR(MakeRealtime(options_.realtime_priority));
  }
  SLUICE_ASSIGN_OR_RETURN(ring_, Ring::Create(options_.ring));
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd_ < 0) return absl::ErrnoToStatus(errno, "eventfd");
  wake_watch_ = ring_->Watch(wake_fd_, &OnWakeEvent, this);
  now_nanos_ = options_.clock->NowNanos();
  return absl::OkStatus();
}

Reactor::~Reactor() {
  // Who posted the last message or stopped us may not be back from Wake().
  while (callers_.load(std::memory_order_acquire) != 0) sched_yield();
  std::erase(sources_, nullptr);
  SLUICE_CHECK(sources_.empty());
  SLUICE_CHECK(inbox_.empty());
  SLUICE_CHECK(ready_.empty());
  SLUICE_CHECK(timers_.empty());
  if (wake_watch_ != nullptr) ring_->Unwatch(wake_watch_);
  ring_.reset();
  if (wake_fd_ >= 0) close(wake_fd_);
  if (current_reactor == this) current_reactor = nullptr;
}

void Reactor::Run() {
  SLUICE_CHECK(IsCurrent());
  while (!stop_.load(std::memory_order_acquire)) {
    if (Tick() > 0) continue;
    if (spin_.ShouldSpin()) {
      ++stats_.spins;
      continue;
    }
    Sleep(absl::InfiniteDuration());
  }
  stop_.store(false, std::memory_order_release);
  Tick();
  for (int i = 0; i < kFinalTicks && !inbox_.empty(); ++i) Tick();
}

void Reactor::Stop() {
  callers_.fetch_add(1, std::memory_order_relaxed);
  stop_.store(true, std::memory_order_seq_cst);
  Wake();
  callers_.fetch_sub(1, std::memory_order_release);
}

int Reactor::Tick() {
  ++stats_.ticks;
  in_tick_ = true;
  std::erase(sources_, nullptr);
  now_nanos_ = options_.clock->NowNanos();
  int work = PollSources();
  if (work > 0) RestartSafetyPolls();
  const int reaped = ring_->Reap(kReapBatch);
  stats_.ring_completions += static_cast<uint64_t>(reaped);
  const int messages = inbox_.Run(kMessageBatch);
  stats_.messages += static_cast<uint64_t>(messages);
  const int timers = timers_.RunDue(now_nanos_, kTimerBatch);
  stats_.timers += static_cast<uint64_t>(timers);
  work += reaped + messages + timers + ResumeReady();
  FlushSources();
  ring_->Submit();
  in_tick_ = false;
  spin_.OnTick(now_nanos_, work);
  return work;
}

int Reactor::PollSources() {
  int work = 0;
  // By index: what a source resumes may add and remove sources.
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i] != nullptr) work += sources_[i]->Poll();
  }
  return work;
}

void Reactor::FlushSources() {
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i] != nullptr) sources_[i]->Flush();
  }
}

int Reactor::ResumeReady() {
  int resumed = 0;
  while (resumed < kResumeBatch) {
    Waiter* waiter = ready_.PopFront();
    if (waiter == nullptr) break;
    waiter->frame.resume();
    ++resumed;
  }
  return resumed;
}

// The one order, everywhere: request notification, poll until empty, only then
// sleep.
void Reactor::Sleep(absl::Duration limit) {
  if (options_.arms_last && PollSources() > 0) {
    FlushSources();
    return;
  }
  bool armed = false;
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i] != nullptr) armed |= sources_[i]->Arm();
  }
  const int found = options_.arms_last ? 0 : PollSources();
  if (found > 0) {
    stats_.rearm_found += static_cast<uint64_t>(found);
    FlushSources();
    spin_.OnTick(options_.clock->NowNanos(), found);
    RestartSafetyPolls();
    return;
  }
  sleeping_.store(true, std::memory_order_seq_cst);
  if (!inbox_.empty() || !ready_.empty() || ring_->HasWork() ||
      stop_.load(std::memory_order_seq_cst)) {
    sleeping_.store(false, std::memory_order_relaxed);
    return;
  }
  ++stats_.sleeps;
  spin_.OnSleep();
  const int64_t nanos = SleepNanos(limit);
  ring_->Wait(nanos);
  sleeping_.store(false, std::memory_order_relaxed);
  const int64_t woken_at =
      woken_at_nanos_.exchange(0, std::memory_order_relaxed);
  if (woken_at > 0) {
    const int64_t cost = Clock::Real()->NowNanos() - woken_at;
    spin_.OnWake(cost);
    wake_latency_.Record(static_cast<uint64_t>(std::max<int64_t>(cost, 0)));
  }
  if (ring_->HasWork()) ++stats_.wake_ups;
  const bool limited =
      nanos == std::max<int64_t>(0, absl::ToInt64Nanoseconds(limit));
  if (armed && !limited && !ring_->HasWork()) {
    for (size_t i = 0; i < sources_.size(); ++i) {
      if (sources_[i] != nullptr) sources_[i]->OnTimeout();
    }
    if (nanos == safety_nanos_) {
      safety_nanos_ =
          std::min(8 * safety_nanos_,
                   absl::ToInt64Nanoseconds(options_.safety_poll_idle));
    }
  }
}

void Reactor::RestartSafetyPolls() {
  safety_nanos_ = absl::ToInt64Nanoseconds(options_.safety_poll_busy);
}

int64_t Reactor::SleepNanos(absl::Duration limit) const {
  int64_t nanos = INT64_MAX;
  if (!sources_.empty()) nanos = safety_nanos_;
  if (timers_.next_deadline_nanos() != TimerHeap::kNever) {
    nanos =
        std::min(nanos, std::max<int64_t>(0, timers_.next_deadline_nanos() -
                                                 options_.clock->NowNanos()));
  }
  if (limit != absl::InfiniteDuration()) {
    nanos =
        std::min(nanos, std::max<int64_t>(0, absl::ToInt64Nanoseconds(limit)));
  }
  return nanos == INT64_MAX ? -1 : nanos;
}

void Reactor::AddPollSource(PollSource* source) {
  SLUICE_DCHECK_ON(this);
  sources_.push_back(source);
}

void Reactor::RemovePollSource(PollSource* source) {
  SLUICE_DCHECK_ON(this);
  const auto found = std::find(sources_.begin(), sources_.end(), source);
  SLUICE_CHECK(found != sources_.end());
  *found = nullptr;
}

void Reactor::Post(Message* message) {
  callers_.fetch_add(1, std::memory_order_relaxed);
  inbox_.Push(message);
  Wake();
  callers_.fetch_sub(1, std::memory_order_release);
}

void Reactor::Wake() {
  if (IsCurrent()) return;
  if (!sleeping_.exchange(false, std::memory_order_seq_cst)) return;
  // By the sender's ring only when it is about to be submitted.
  Reactor* sender = Current();
  if (sender != nullptr && sender->in_tick_ &&
      sender->ring_->WakeByMessage(ring_->fd(), wake_fd_)) {
    return;
  }
  woken_at_nanos_.store(Clock::Real()->NowNanos(), std::memory_order_relaxed);
  const uint64_t one = 1;
  const ssize_t written = write(wake_fd_, &one, sizeof(one));
  SLUICE_CHECK(written == sizeof(one) || errno == EAGAIN);
}

// Another thread wakes us a few times. The median: some of them find us awake
// still, or the machine busy.
void Reactor::MeasureWakeUp() {
  std::array<int64_t, kWakeUps> costs;
  for (int64_t& cost : costs) {
    std::thread waker([this] {
      std::this_thread::sleep_for(kBeforeWakeUp);
      Wake();
    });
    Sleep(kWakeUpLimit);
    waker.join();
    cost = static_cast<int64_t>(wake_latency_.max());
    wake_latency_.Clear();
    Tick();
  }
  std::sort(costs.begin(), costs.end());
  const int64_t median = costs[kWakeUps / 2];
  if (median > 0) spin_.set_wake_cost(median);
  stats_ = {};
}

void Reactor::OnWakeEvent(void* context) {
  uint64_t count;
  while (read(static_cast<Reactor*>(context)->wake_fd_, &count,
              sizeof(count)) == sizeof(count)) {
  }
}

}  // namespace sluice
