#include "tests/support/live_faults.h"

#include "transport/iwarp/faults.h"

namespace sluice {

using iwarp::Faults;
using iwarp::LateKind;

LiveFaults::LiveFaults(FakeFaults* fake) : fake_(fake) {
  if (fake_ == nullptr) Faults::SpareThisThread(true);
}

LiveFaults::~LiveFaults() {
  Clear();
  if (fake_ == nullptr) Faults::SpareThisThread(false);
}

void LiveFaults::HoldSends() {
  if (fake_ != nullptr) {
    fake_->HoldSends(FakeSide::kPassive);
  } else {
    Faults::Get().DelayCompletions(1, 1, absl::InfiniteDuration(),
                                   LateKind::kSends);
  }
}

void LiveFaults::DelaySends(absl::Duration delay) {
  if (fake_ != nullptr) {
    fake_->DelaySends(delay, FakeSide::kPassive);
  } else {
    Faults::Get().DelayCompletions(1, 1, delay, LateKind::kSends);
  }
}

void LiveFaults::ReleaseSends() {
  if (fake_ != nullptr) {
    fake_->ReleaseSends();
  } else {
    Faults::Get().Release();
  }
}

void LiveFaults::DropFlushes() {
  if (fake_ != nullptr) {
    fake_->DropFlushCompletions(true, FakeSide::kPassive);
  } else {
    Faults::Get().DelayCompletions(1, 1, absl::InfiniteDuration(),
                                   LateKind::kFlushes);
  }
}

void LiveFaults::SwallowNotifications(int every_n) {
  if (fake_ != nullptr) {
    fake_->SwallowNotifications(every_n);
  } else {
    const auto n = static_cast<uint64_t>(every_n);
    Faults::Get().SwallowNotification(n, n);
  }
}

int LiveFaults::swallowed_count() const {
  if (fake_ != nullptr) return fake_->swallowed_count();
  return static_cast<int>(Faults::Get().swallowed_count());
}

void LiveFaults::FailAnyCall(int n, int error) {
  if (fake_ != nullptr) {
    fake_->FailAnyCall(n, error);
  } else {
    Faults::Get().FailCall("", static_cast<uint64_t>(n), error);
  }
}

int LiveFaults::failed_count() const {
  if (fake_ != nullptr) return fake_->failed_call_count();
  return static_cast<int>(Faults::Get().failed_count());
}

void LiveFaults::Clear() {
  if (fake_ != nullptr) {
    fake_->Clear();
  } else {
    Faults::Get().Clear();
  }
}

}  // namespace sluice
