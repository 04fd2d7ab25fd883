#include "transport/iwarp/faults.h"

#include <algorithm>
#include <utility>

#include "transport/iwarp/poll_group.h"

namespace sluice::iwarp {
namespace {

thread_local bool spared = false;

int64_t NanosOf(absl::Duration by) {
  return by == absl::InfiniteDuration() ? Faults::kUntilReleased
                                        : absl::ToInt64Nanoseconds(by);
}

bool IsOf(const ibv_wc& wc, LateKind kind) {
  switch (kind) {
    case LateKind::kAny:
      return true;
    case LateKind::kSends:
      return wc.opcode != IBV_WC_RECV;
    case LateKind::kReceives:
      return wc.opcode == IBV_WC_RECV;
    case LateKind::kFlushes:
      break;
  }
  return wc.status == IBV_WC_WR_FLUSH_ERR;
}

}  // namespace

// Never destroyed: threads may still be here when the process ends.
Faults& Faults::Get() {
  static Faults* faults = new Faults;
  return *faults;
}

void Faults::SpareThisThread(bool spare) { spared = spare; }

bool Faults::Count::Strikes() {
  if (in == 0) return false;
  --in;
  if (in > 0) return false;
  in = every;
  return true;
}

void Faults::SwallowNotification(uint64_t n, uint64_t every) {
  const std::lock_guard lock(mutex_);
  swallow_ = {n, every};
  active.store(true);
}

void Faults::DoubleNotification(uint64_t n, uint64_t every) {
  const std::lock_guard lock(mutex_);
  double_ = {n, every};
  active.store(true);
}

void Faults::DelayNotification(uint64_t n, uint64_t every, absl::Duration by) {
  const std::lock_guard lock(mutex_);
  late_notification_ = {{n, every}, LateKind::kAny, NanosOf(by)};
  active.store(true);
}

void Faults::DelayCompletions(uint64_t n, uint64_t every, absl::Duration by,
                              LateKind kind) {
  const std::lock_guard lock(mutex_);
  late_rules_.push_back({{n, every}, kind, NanosOf(by)});
  active.store(true);
}

void Faults::Release() {
  const std::lock_guard lock(release_mutex_);
  ReleaseLocked();
}

// One after the other: each returns when nothing is late.
void Faults::ReleaseLocked() {
  std::vector<std::weak_ptr<PollGroup>> groups;
  {
    const std::lock_guard lock(mutex_);
    late_rules_.clear();
    late_notification_ = {};
    groups.swap(late_groups_);
  }
  for (const auto& weak : groups) {
    const std::shared_ptr<PollGroup> group = weak.lock();
    if (group == nullptr) continue;
    const GroupLock lock(group.get());
    group->late.Deliver(group.get(), kUntilReleased);
  }
}

void Faults::BeforeArming(std::function<void(ibv_cq*)> callback) {
  const std::lock_guard arming_lock(arming_mutex_);
  before_arming_ = std::move(callback);
  const std::lock_guard lock(mutex_);
  has_before_arming_.store(before_arming_ != nullptr);
  active.store(true);
}

void Faults::FailCall(std::string_view name, uint64_t n, int error) {
  const std::lock_guard lock(mutex_);
  fail_name_ = name;
  fail_ = {n, 0};
  fail_error_ = error;
  active.store(true);
}

void Faults::ShortenCqs(bool shorten) {
  const std::lock_guard lock(mutex_);
  shorten_cqs_.store(shorten);
  active.store(true);
}

void Faults::BreakAfterSent(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  break_after_.store(bytes);
  active.store(true);
}

// any() until nothing is late: what comes meanwhile must not overtake it.
void Faults::Clear() {
  BeforeArming(nullptr);
  {
    const std::lock_guard lock(mutex_);
    shorten_cqs_.store(false);
    break_after_.store(0);
    swallow_ = double_ = fail_ = {};
  }
  const std::lock_guard release_lock(release_mutex_);
  ReleaseLocked();
  const std::lock_guard lock(mutex_);
  if (AreAllForgotten()) active.store(false);
}

bool Faults::AreAllForgotten() const {
  return swallow_.in == 0 && double_.in == 0 && fail_.in == 0 &&
         late_rules_.empty() && late_notification_.count.in == 0 &&
         !shorten_cqs_.load() && break_after_.load() == 0 &&
         !has_before_arming_.load();
}

bool Faults::SwallowsNow() {
  const std::lock_guard lock(mutex_);
  if (spared || !swallow_.Strikes()) return false;
  swallowed_.fetch_add(1);
  return true;
}

bool Faults::DoublesNow() {
  const std::lock_guard lock(mutex_);
  if (spared || !double_.Strikes()) return false;
  doubled_.fetch_add(1);
  return true;
}

int Faults::ErrorNow(std::string_view name) {
  const std::lock_guard lock(mutex_);
  if (spared || (!fail_name_.empty() && fail_name_ != name)) return 0;
  if (!fail_.Strikes()) return 0;
  failed_.fetch_add(1);
  return fail_error_;
}

bool Faults::shortens_cqs() const {
  return any() && !spared && shorten_cqs_.load();
}

uint64_t Faults::break_after_sent() const {
  return any() && !spared ? break_after_.load() : 0;
}

int64_t Faults::LatenessOf(const ibv_wc& wc, PollGroup* group) {
  const std::lock_guard lock(mutex_);
  if (spared) return 0;
  int64_t nanos = 0;
  for (LateRule& rule : late_rules_) {
    if (!IsOf(wc, rule.kind) || !rule.count.Strikes()) continue;
    nanos = std::max(nanos, rule.nanos);
  }
  if (nanos > 0) Remember(group);
  return nanos;
}

int64_t Faults::LatenessOfNotification(PollGroup* group) {
  const std::lock_guard lock(mutex_);
  if (spared || !late_notification_.count.Strikes()) return 0;
  if (late_notification_.nanos > 0) Remember(group);
  return late_notification_.nanos;
}

// With the rule that strikes: Release() finds either both or neither.
void Faults::Remember(PollGroup* group) {
  std::erase_if(late_groups_, [group](const auto& weak) {
    const std::shared_ptr<PollGroup> other = weak.lock();
    return other == nullptr || other.get() == group;
  });
  late_groups_.push_back(group->weak_from_this());
}

void Faults::OnLate() {
  late_.fetch_add(1);
  waiting_.fetch_add(1);
}

void Faults::OnNoLonger(uint64_t count) { waiting_.fetch_sub(count); }

void Faults::OnArming(ibv_cq* cq) {
  if (spared || !has_before_arming_.load()) return;
  const std::lock_guard lock(arming_mutex_);
  if (before_arming_ != nullptr) before_arming_(cq);
}

}  // namespace sluice::iwarp
