// When an idle reactor spins and when it sleeps.
//
// A sleep costs a wake-up: processor time, and latency for whoever comes first.
// A spin costs the processor. kHybrid spins where the work is dense and sleeps
// where it is not, and judges that by each single pause, never by averages of
// time, in which a reactor that oversleeps would see its own sleep for the
// load's:
//
//   - Load. What the recent work would have taken at the best rate that this
//     reactor has reached, as a share of the time it did take: from kBusyLoad
//     on it is busy. That needs no pause to be seen.
//   - Regular pauses, shorter than a wake-up is worth: someone waits for our
//     answer before the next request comes (a queue of depth 1). A sleep would
//     slow him down. Only pauses that were spun through are true ones; those
//     that were slept through end when the sleep does.
//   - Else it sleeps at once, as kEvent does, but for probes, which look for
//     the second case.
//
// Spins that find nothing, and all probes, are paid from an account which the
// busy time fills: a fiftieth of it, so that nobody pays much more than
// kEvent costs. An idle reactor earns nothing and never spins. Where regular
// pauses were many, and something has disturbed them, probes follow at once.
//
// Plain arithmetic on the times that it is given; owned by its reactor.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace sluice {

// How a reactor waits for completions. `kPoll` never sleeps, `kEvent` never
// spins, `kHybrid` spins while that pays and sleeps else.
enum class PollMode : uint8_t { kPoll, kEvent, kHybrid };

struct SpinOptions {
  PollMode mode = PollMode::kHybrid;
  // kHybrid: spins so long in a row at most. Longer keeps queues of depth 1
  // fast over slower networks, and costs more when the work ends.
  absl::Duration max_spin = absl::Microseconds(100);
  // kHybrid: the share of a processor that may go into spins, 0 to 1.
  double max_spin_share = 1;
  // kHybrid: spins exactly so long after the last work, whatever comes of it;
  // zero: learns how long.
  absl::Duration fixed_spin = absl::ZeroDuration();

  // InvalidArgument: what is out of range.
  absl::Status Validate() const;
};

// Decisions of a policy.
struct SpinStats {
  uint64_t spins_found = 0;   // spun pauses that ended with work
  uint64_t spins_missed = 0;  // that ended in a sleep
  uint64_t busy = 0;          // pauses spun through because of the load
  uint64_t regular = 0;       // because the pauses were regular
  uint64_t probes = 0;        // to see how long they are
  uint64_t capped = 0;        // not spun through: max_spin_share
  uint64_t spin_nanos = 0;    // in all spun pauses
};

class SpinPolicy {
 public:
  explicit SpinPolicy(const SpinOptions& options);

  const SpinOptions& options() const { return options_; }
  void set_options(const SpinOptions& options);

  // What a sleep and its wake-up add to a pause: as measured at the start, and
  // as one wake-up has shown since.
  void set_wake_cost(int64_t nanos) { wake_cost_nanos_ = nanos; }
  void OnWake(int64_t cost_nanos);
  int64_t wake_cost_nanos() const { return wake_cost_nanos_; }

  // A tick that began then and did `work`, or nothing.
  void OnTick(int64_t now_nanos, int work);
  // After a tick without work: look again, or sleep?
  bool ShouldSpin() const {
    return now_nanos_ - idle_since_nanos_ < limit_nanos_;
  }
  // The reactor is about to sleep; OnTick follows when it is awake.
  void OnSleep();

  const SpinStats& stats() const { return stats_; }
  // The load as it sees it, 0 to 1.
  double load() const;

 private:
  void BeginPause(int64_t now_nanos);
  void EndPause(int64_t now_nanos);
  void OnFound(int64_t pause_nanos);
  void Observe(double pause_nanos);
  void EndProbes(bool in_vain);
  void Pay(int64_t spun_nanos);
  // How long this pause may be spun.
  int64_t Decide();
  bool regular() const;
  // A pause that is worth spinning through, at most: what a wake-up costs.
  int64_t LongestPause() const;
  double account_max() const;

  SpinOptions options_;
  int64_t max_spin_nanos_ = 0;
  int64_t wake_cost_nanos_;
  SpinStats stats_;

  int64_t now_nanos_ = 0;         // of the last tick
  int64_t idle_since_nanos_ = 0;  // of the pause, while there is one
  int64_t limit_nanos_ = 0;       // of this pause's spin
  int64_t busy_since_nanos_ = 0;
  int64_t cycle_since_nanos_ = 0;
  int last_work_ = 0;  // of the last tick
  bool idle_ = false;
  bool busy_ = false;       // by its load
  bool slept_ = false;      // in this pause
  bool probing_ = false;    // this pause is for seeing how long it is
  bool in_probes_ = false;  // and so will the next be
  int trust_ = 0;           // pauses that speak for probes beyond the account
  bool trusting_ = false;   // these probes are such
  int64_t last_pause_nanos_ = INT64_MAX;

  // Per work item, the best seen: what the load is reckoned with.
  double best_nanos_ = 0;
  bool best_of_batch_ = false;
  // Of the last busy times and pauses, fading.
  double work_ = 0;
  double time_nanos_ = 0;
  int work_in_cycle_ = 0;
  // Of pauses that were spun through, fading: mean and mean deviation.
  double pause_mean_nanos_ = 0;
  double pause_deviation_nanos_ = 0;
  int pauses_seen_ = 0;  // up to how many it takes to judge them

  double account_nanos_ = 0;
  double share_nanos_;  // what max_spin_share leaves
};

}  // namespace sluice
