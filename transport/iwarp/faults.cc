#include "transport/iwarp/faults.h"

namespace sluice::iwarp {

Faults& Faults::Get() {
  static Faults faults;
  return faults;
}

void Faults::SwallowNotification(uint64_t n, uint64_t every) {
  const std::lock_guard lock(mutex_);
  swallow_in_ = n;
  swallow_every_ = every;
  any_.store(true);
}

void Faults::FailCall(std::string_view name, uint64_t n, int error) {
  const std::lock_guard lock(mutex_);
  fail_name_ = name;
  fail_in_ = n;
  fail_error_ = error;
  any_.store(true);
}

void Faults::ShortenCqs(bool shorten) {
  shorten_cqs_.store(shorten);
  any_.store(true);
}

void Faults::BreakAfterSent(uint64_t bytes) {
  break_after_.store(bytes);
  any_.store(true);
}

void Faults::Clear() {
  const std::lock_guard lock(mutex_);
  any_.store(false);
  shorten_cqs_.store(false);
  break_after_.store(0);
  swallow_in_ = swallow_every_ = fail_in_ = 0;
}

bool Faults::SwallowsNow() {
  const std::lock_guard lock(mutex_);
  if (swallow_in_ == 0) return false;
  --swallow_in_;
  if (swallow_in_ > 0) return false;
  swallow_in_ = swallow_every_;
  swallowed_.fetch_add(1);
  return true;
}

int Faults::ErrorNow(std::string_view name) {
  const std::lock_guard lock(mutex_);
  if (fail_in_ == 0) return 0;
  if (!fail_name_.empty() && fail_name_ != name) return 0;
  --fail_in_;
  if (fail_in_ > 0) return 0;
  failed_.fetch_add(1);
  return fail_error_;
}

}  // namespace sluice::iwarp
