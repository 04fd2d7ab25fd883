#include "core/spin_policy.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/clock.h"

namespace sluice {
namespace {

// From this load on latency is what counts, until it is below the other.
constexpr double kBusyLoad = 0.66;
constexpr double kBusyNoMore = 0.6;
// Mean deviation of pauses, as a share of their mean, up to which they are
// regular. Of random arrivals (Poisson) it is 0.74.
constexpr double kRegularDeviation = 0.45;
// A pause longer than so many times the mean counts as one of that length.
constexpr double kFarOut = 4;
// Pauses to have seen before they are judged.
constexpr int kPausesMin = 6;
// How fast the past fades, by busy times and pauses. The load needs many: the
// pauses of random arrivals are of all lengths.
constexpr double kFade = 1.0 / 16;
constexpr double kLoadFade = 1.0 / 256;
// Work in one tick that shows what the reactor can do.
constexpr int kBatchMin = 4;
// How fast the best rate is forgotten, by ticks.
constexpr double kBestFade = 1.0 / 1024;
// Of the busy time, for spins that find nothing; and how much may be saved up,
// in longest pauses.
constexpr double kAllowance = 1.0 / 50;
constexpr double kAccountMax = 8;
// What probes in a row are begun with, too.
constexpr double kProbesMin = 6;
// So many regular pauses spun through have earned the probes that see whether
// they go on, should something disturb them: what these may cost in vain is
// little beside what those have saved.
constexpr int kPausesTrusted = 256;
// max_spin_share holds over about so long.
constexpr double kShareWindow = 10.0 * kNanosPerMilli;
// Until it has been measured.
constexpr int64_t kWakeCost = 25 * kNanosPerMicro;
constexpr int64_t kWakeCostMin = kNanosPerMicro;
constexpr int64_t kWakeCostMax = kNanosPerMilli;
constexpr int64_t kWakeFade = 16;
constexpr absl::Duration kSpinLimit = absl::Milliseconds(10);

}  // namespace

absl::Status SpinOptions::Validate() const {
  if (max_spin < absl::ZeroDuration() || max_spin > kSpinLimit) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_spin is ", absl::FormatDuration(max_spin),
                     ", not 0 to ", absl::FormatDuration(kSpinLimit)));
  }
  if (!(max_spin_share >= 0 && max_spin_share <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_spin_share is ", max_spin_share, ", not 0 to 1"));
  }
  if (fixed_spin < absl::ZeroDuration() || fixed_spin > kSpinLimit) {
    return absl::InvalidArgumentError(
        absl::StrCat("fixed_spin is ", absl::FormatDuration(fixed_spin),
                     ", not 0 to ", absl::FormatDuration(kSpinLimit)));
  }
  return absl::OkStatus();
}

SpinPolicy::SpinPolicy(const SpinOptions& options)
    : wake_cost_nanos_(kWakeCost) {
  set_options(options);
  account_nanos_ = account_max();
}

void SpinPolicy::set_options(const SpinOptions& options) {
  options_ = options;
  max_spin_nanos_ = absl::ToInt64Nanoseconds(options.max_spin);
  share_nanos_ = options.max_spin_share * kShareWindow;
  if (idle_) limit_nanos_ = Decide();
}

void SpinPolicy::OnTick(int64_t now_nanos, int work) {
  const int64_t last = now_nanos_;
  now_nanos_ = now_nanos;
  if (last_work_ > 0) {
    const double each = static_cast<double>(now_nanos - last) / last_work_;
    const bool batch = last_work_ >= kBatchMin;
    // Until there was a batch, single ones have to do.
    if (best_nanos_ == 0 || (batch && !best_of_batch_) ||
        (each < best_nanos_ && batch == best_of_batch_)) {
      best_nanos_ = each;
      best_of_batch_ = batch;
    } else if (batch == best_of_batch_) {
      best_nanos_ += (each - best_nanos_) * kBestFade;
    }
  }
  last_work_ = work;
  if (work > 0) {
    if (idle_) EndPause(now_nanos);
    work_in_cycle_ += work;
  } else if (!idle_) {
    BeginPause(now_nanos);
  }
}

void SpinPolicy::BeginPause(int64_t now_nanos) {
  idle_ = true;
  slept_ = false;
  probing_ = false;
  idle_since_nanos_ = now_nanos;
  const auto busy = static_cast<double>(now_nanos - busy_since_nanos_);
  account_nanos_ = std::min(account_nanos_ + busy * kAllowance, account_max());
  limit_nanos_ = Decide();
}

void SpinPolicy::EndPause(int64_t now_nanos) {
  last_pause_nanos_ = now_nanos - idle_since_nanos_;
  if (!slept_ && limit_nanos_ > 0) OnFound(last_pause_nanos_);
  const auto cycle = static_cast<double>(now_nanos - cycle_since_nanos_);
  share_nanos_ = std::min(share_nanos_ + cycle * options_.max_spin_share,
                          kShareWindow * options_.max_spin_share);
  work_ += (work_in_cycle_ - work_) * kLoadFade;
  time_nanos_ += (cycle - time_nanos_) * kLoadFade;
  work_in_cycle_ = 0;
  cycle_since_nanos_ = busy_since_nanos_ = now_nanos;
  idle_ = false;
}

void SpinPolicy::Pay(int64_t spun_nanos) {
  stats_.spin_nanos += static_cast<uint64_t>(spun_nanos);
  share_nanos_ -= static_cast<double>(spun_nanos);
}

// A pause that was spun through to its end: a true one.
void SpinPolicy::OnFound(int64_t pause_nanos) {
  ++stats_.spins_found;
  Pay(pause_nanos);
  const auto pause = static_cast<double>(pause_nanos);
  Observe(pause);
  if (!probing_) {
    if (trust_ < kPausesTrusted) ++trust_;
    return;
  }
  if (!trusting_) account_nanos_ = std::max(account_nanos_ - pause, 0.0);
  if (pauses_seen_ >= kPausesMin) EndProbes(/*in_vain=*/!regular());
}

void SpinPolicy::Observe(double pause_nanos) {
  if (pauses_seen_ < kPausesMin) ++pauses_seen_;
  if (pauses_seen_ == 1) {
    pause_mean_nanos_ = pause_nanos;
    pause_deviation_nanos_ = 0;
    return;
  }
  // One that is far out says no more than one that is out.
  const double seen = std::min(pause_nanos, kFarOut * pause_mean_nanos_);
  pause_deviation_nanos_ +=
      (std::abs(seen - pause_mean_nanos_) - pause_deviation_nanos_) * kFade;
  pause_mean_nanos_ += (seen - pause_mean_nanos_) * kFade;
}

void SpinPolicy::OnSleep() {
  if (!idle_ || slept_) return;
  slept_ = true;
  if (limit_nanos_ == 0) return;
  const int64_t spun = now_nanos_ - idle_since_nanos_;
  ++stats_.spins_missed;
  Pay(spun);
  if (!probing_ || !trusting_) {
    account_nanos_ = std::max(account_nanos_ - static_cast<double>(spun), 0.0);
  }
  if (probing_) {
    EndProbes(/*in_vain=*/true);
  } else if (pauses_seen_ > 0) {
    // Longer than we looked: a few of these, and pauses are regular no more.
    Observe(kFarOut * pause_mean_nanos_);
  }
}

// In vain: the next ones have to wait until they can be afforded again.
void SpinPolicy::EndProbes(bool in_vain) {
  in_probes_ = false;
  if (!in_vain) return;
  pauses_seen_ = 0;
  if (!trusting_) account_nanos_ /= 2;
}

double SpinPolicy::load() const {
  if (time_nanos_ <= 0) return 0;
  return std::min(work_ * best_nanos_ / time_nanos_, 1.0);
}

void SpinPolicy::OnWake(int64_t cost_nanos) {
  const int64_t seen = std::clamp(cost_nanos, kWakeCostMin, kWakeCostMax);
  wake_cost_nanos_ += (seen - wake_cost_nanos_) / kWakeFade;
}

bool SpinPolicy::regular() const {
  return pauses_seen_ >= kPausesMin &&
         pause_deviation_nanos_ <= kRegularDeviation * pause_mean_nanos_ &&
         pause_mean_nanos_ <= static_cast<double>(LongestPause());
}

int64_t SpinPolicy::LongestPause() const {
  return std::min(max_spin_nanos_, wake_cost_nanos_);
}

double SpinPolicy::account_max() const {
  return kAccountMax * static_cast<double>(LongestPause());
}

int64_t SpinPolicy::Decide() {
  switch (options_.mode) {
    case PollMode::kPoll:
      return INT64_MAX;
    case PollMode::kEvent:
      return 0;
    case PollMode::kHybrid:
      break;
  }
  if (options_.fixed_spin > absl::ZeroDuration()) {
    return absl::ToInt64Nanoseconds(options_.fixed_spin);
  }
  if (share_nanos_ <= 0) {
    ++stats_.capped;
    return 0;
  }
  busy_ = load() >= (busy_ ? kBusyNoMore : kBusyLoad);
  if (busy_ || regular()) {
    ++(busy_ ? stats_.busy : stats_.regular);
    // However often it was in vain: pauses like the last ones.
    const double floor = 3 * pause_mean_nanos_;
    return std::min(static_cast<int64_t>(std::max(account_nanos_, floor)),
                    max_spin_nanos_);
  }
  if (!in_probes_) {
    // Slept through or not, the last pause was no longer than it was.
    if (last_pause_nanos_ > LongestPause() + 2 * wake_cost_nanos_) return 0;
    trusting_ = trust_ == kPausesTrusted;
    if (!trusting_ &&
        account_nanos_ < kProbesMin / kAccountMax * account_max()) {
      return 0;
    }
    if (trusting_) trust_ = 0;
    in_probes_ = true;
    pauses_seen_ = 0;
  }
  ++stats_.probes;
  probing_ = true;
  if (trusting_) return LongestPause();
  return std::min(static_cast<int64_t>(account_nanos_), LongestPause());
}

}  // namespace sluice
