// Faults that the provider can be told to have, for tests of what stands on it:
// a notification that is lost, a control call that fails, a CQ that is smaller
// than it was asked to be, a connection that breaks at a byte. Nothing here
// changes anything until it is told to. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace sluice::iwarp {

class Faults {
 public:
  static Faults& Get();

  // The n-th notification of a completion from now (1: the next) is lost, and
  // each `every`-th after it (0: no other). The CQ is disarmed all the same.
  void SwallowNotification(uint64_t n, uint64_t every = 0);
  // The n-th call from now of that function (the field of VerbsApi; empty: of
  // any that makes or changes something) fails with `error`.
  void FailCall(std::string_view name, uint64_t n, int error);
  // CQs get one entry less than asked for.
  void ShortenCqs(bool shorten);
  // The connections made from now on are cut (reset) when this side has sent
  // so many bytes of FPDUs; 0: never.
  void BreakAfterSent(uint64_t bytes);

  void Clear();
  // What came of them.
  uint64_t swallowed_count() const { return swallowed_.load(); }
  uint64_t failed_count() const { return failed_.load(); }

  // --- the provider's ---
  bool any() const { return any_.load(std::memory_order_relaxed); }
  bool SwallowsNotification() { return any() && SwallowsNow(); }
  // The errno that the call is to fail with, or 0.
  int CallError(std::string_view name) { return any() ? ErrorNow(name) : 0; }
  bool shortens_cqs() const { return any() && shorten_cqs_.load(); }
  uint64_t break_after_sent() const { return any() ? break_after_.load() : 0; }

 private:
  bool SwallowsNow();
  int ErrorNow(std::string_view name);

  std::atomic<bool> any_{false};
  std::atomic<bool> shorten_cqs_{false};
  std::atomic<uint64_t> break_after_{0};
  std::atomic<uint64_t> swallowed_{0};
  std::atomic<uint64_t> failed_{0};
  std::mutex mutex_;
  uint64_t swallow_in_ = 0;  // notifications until the next is lost; 0: never
  uint64_t swallow_every_ = 0;
  uint64_t fail_in_ = 0;
  int fail_error_ = 0;
  std::string fail_name_;
};

}  // namespace sluice::iwarp
