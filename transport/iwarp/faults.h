// Faults that the provider can be told to have, for tests of what stands on it:
// completions and notifications that come late or never, a control call that
// fails, a CQ that is smaller than it was asked to be, a connection that breaks
// at a byte. Nothing here changes anything until it is told to. Thread-safe.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"

namespace sluice::iwarp {

class PollGroup;

// Completions that are late: of which work requests, or those flushed.
enum class LateKind : uint8_t { kAny, kSends, kReceives, kFlushes };

class Faults {
 public:
  static Faults& Get();

  // What this thread does is without faults, and no call of it counts: of a
  // test that has both ends in its process, the end that is not to suffer.
  static void SpareThisThread(bool spare);

  // The n-th notification of a completion from now (1: the next) is lost, and
  // each `every`-th after it (0: no other). The CQ is disarmed all the same.
  void SwallowNotification(uint64_t n, uint64_t every = 0);
  // The same ones come twice, each to be acknowledged.
  void DoubleNotification(uint64_t n, uint64_t every = 0);
  // They come `by` later; InfiniteDuration(): when released.
  void DelayNotification(uint64_t n, uint64_t every, absl::Duration by);
  // The n-th completion of that kind from now, and each `every`-th after it,
  // comes `by` later; those behind it of the same send or receive queue wait
  // for it. Of several such faults the longest counts. What is still late when
  // its queue pair is destroyed never comes: with InfiniteDuration(), a device
  // that keeps completions for itself.
  void DelayCompletions(uint64_t n, uint64_t every, absl::Duration by,
                        LateKind kind = LateKind::kAny);
  // No completion and no notification is late from now on: those that are have
  // come when this returns.
  void Release();
  // Runs at the start of every arming of a CQ, before it is armed, on the
  // caller's thread: the place for a completion between an empty poll and the
  // arming. Null removes it, and waits for one that runs; so does Clear().
  void BeforeArming(std::function<void(ibv_cq*)> callback);
  // The n-th call from now of that function (the field of VerbsApi; empty: of
  // any that makes or changes something) fails with `error`.
  void FailCall(std::string_view name, uint64_t n, int error);
  // CQs get one entry less than asked for.
  void ShortenCqs(bool shorten);
  // The connections made from now on are cut (reset) when this side has sent
  // so many bytes of FPDUs; 0: never.
  void BreakAfterSent(uint64_t bytes);

  // Forgets all of the above, with Release().
  void Clear();
  // What came of them.
  uint64_t swallowed_count() const { return swallowed_.load(); }
  uint64_t doubled_count() const { return doubled_.load(); }
  uint64_t failed_count() const { return failed_.load(); }
  // Completions and notifications that were late, and that still are.
  uint64_t late_count() const { return late_.load(); }
  uint64_t waiting_count() const { return waiting_.load(); }

  // --- the provider's ---

  // All that the data path asks while there is no fault.
  static bool any() { return active.load(std::memory_order_relaxed); }
  bool SwallowsNotification() { return any() && SwallowsNow(); }
  bool DoublesNotification() { return any() && DoublesNow(); }
  // The errno that the call is to fail with, or 0.
  int CallError(std::string_view name) { return any() ? ErrorNow(name) : 0; }
  bool shortens_cqs() const;
  uint64_t break_after_sent() const;
  // By how many nanoseconds the completion, or the next notification, is late;
  // 0: it is not; kUntilReleased. `group` keeps it if it is, and its mutex is
  // held until it has.
  static constexpr int64_t kUntilReleased = INT64_MAX;
  int64_t LatenessOf(const ibv_wc& wc, PollGroup* group);
  int64_t LatenessOfNotification(PollGroup* group);
  void OnLate();
  void OnNoLonger(uint64_t count);
  void OnArming(ibv_cq* cq);

 private:
  // Strikes at the n-th occasion and each `every`-th after it.
  struct Count {
    uint64_t in = 0;  // occasions until the next; 0: never
    uint64_t every = 0;
    bool Strikes();
  };
  struct LateRule {
    Count count;
    LateKind kind = LateKind::kAny;
    int64_t nanos = 0;
  };

  bool SwallowsNow();
  bool DoublesNow();
  int ErrorNow(std::string_view name);
  void ReleaseLocked();
  void Remember(PollGroup* group);
  bool AreAllForgotten() const;

  static inline std::atomic<bool> active{false};
  std::atomic<bool> shorten_cqs_{false};
  std::atomic<bool> has_before_arming_{false};
  std::atomic<uint64_t> break_after_{0};
  std::atomic<uint64_t> swallowed_{0};
  std::atomic<uint64_t> doubled_{0};
  std::atomic<uint64_t> failed_{0};
  std::atomic<uint64_t> late_{0};
  std::atomic<uint64_t> waiting_{0};
  // In this order: what runs before an arming may release.
  std::mutex arming_mutex_;
  std::function<void(ibv_cq*)> before_arming_;  // guarded by arming_mutex_
  std::mutex release_mutex_;                    // outside of groups' mutexes
  // Innermost of all; guards what is below.
  std::mutex mutex_;
  Count swallow_;
  Count double_;
  LateRule late_notification_;
  std::vector<LateRule> late_rules_;
  // Those that may have something that is late.
  std::vector<std::weak_ptr<PollGroup>> late_groups_;
  Count fail_;
  int fail_error_ = 0;
  std::string fail_name_;
};

}  // namespace sluice::iwarp
