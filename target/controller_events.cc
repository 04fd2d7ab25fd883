// Asynchronous events: what was raised, who waits for it, what was told.
//
// An event goes from raised to told when a parked request takes it, and is
// masked from then on: what happens before the host reads the log is in the
// log already. Invariant: a pending event is never masked, and while one is
// pending no request is parked.
#include <algorithm>

#include "core/check.h"
#include "nvme/limits.h"
#include "target/controller.h"
#include "target/target_shard.h"

namespace sluice::target {
namespace {

using nvme::AsyncEvent;
using nvme::EventType;

constexpr uint8_t kNoticeDiscovery = nvme::kDiscoveryLogChanged.information;
constexpr uint8_t kNoticeMax = 6;  // the last that has a bit from 8 on
constexpr uint8_t kSmartMax = 2;

bool Contains(const std::vector<AsyncEvent>& events, const AsyncEvent& event) {
  return std::find(events.begin(), events.end(), event) != events.end();
}

// Removes the events of this log.
void Forget(nvme::LogId log, std::vector<AsyncEvent>* events) {
  const auto of_log = [log](const AsyncEvent& event) {
    return event.log == log;
  };
  events->erase(std::remove_if(events->begin(), events->end(), of_log),
                events->end());
}

// The bit of feature 0Bh that switches a notice on; 0 when none does. They
// stand in the order of their information, discovery apart [spec §6.7].
uint32_t NoticeBit(uint8_t information) {
  if (information == kNoticeDiscovery) return nvme::kAecDiscovery;
  if (information > kNoticeMax) return 0;
  return nvme::kAecNamespace << information;
}

// Reliability, temperature and spare are bits 2, 1 and 0, as in the critical
// warning of the SMART log.
uint32_t SmartBit(uint8_t information) {
  return information > kSmartMax ? 0 : 1u << (kSmartMax - information);
}

bool Enabled(const AsyncEvent& event, uint32_t configuration) {
  switch (event.type) {
    case EventType::kNotice:
      return (configuration & NoticeBit(event.information)) != 0;
    case EventType::kSmart:
      return (configuration & SmartBit(event.information)) != 0;
    case EventType::kError:
    case EventType::kIoCommandSet:
    case EventType::kVendor:
      return true;
  }
  return false;
}

}  // namespace

bool Controller::EventWait::await_ready() {
  SLUICE_DCHECK_ON(controller_->shard_->reactor());
  SLUICE_DCHECK(controller_->parked_count_ < kAerMax);
  if (controller_->closing_) {
    aborted_ = true;
    return true;
  }
  auto& pending = controller_->pending_;
  if (pending.empty()) return false;
  dw0_ = pending.front().dw0();
  controller_->masked_.push_back(pending.front());
  pending.erase(pending.begin());
  return true;
}

void Controller::EventWait::await_suspend(std::coroutine_handle<> handle) {
  frame = handle;
  controller_->parked_.PushBack(this);
  ++controller_->parked_count_;
}

void Controller::Raise(const AsyncEvent& event) {
  SLUICE_DCHECK_ON(shard_->reactor());
  if (!Enabled(event, features_.async_events)) return;
  if (Contains(pending_, event)) return;
  if (Contains(masked_, event)) return;
  if (parked_.empty()) {
    pending_.push_back(event);
    return;
  }
  SLUICE_DCHECK(pending_.empty());
  auto* wait = static_cast<EventWait*>(parked_.PopFront());
  --parked_count_;
  wait->dw0_ = event.dw0();
  masked_.push_back(event);
  shard_->reactor()->Schedule(wait);
}

void Controller::LogRead(nvme::LogId log) {
  SLUICE_DCHECK_ON(shard_->reactor());
  // One that nobody was told of yet is in what the host has just read, too.
  Forget(log, &pending_);
  Forget(log, &masked_);
}

void Controller::AbortEvents() {
  SLUICE_DCHECK_ON(shard_->reactor());
  while (Waiter* waiter = parked_.PopFront()) {
    auto* wait = static_cast<EventWait*>(waiter);
    --parked_count_;
    wait->aborted_ = true;
    shard_->reactor()->Schedule(wait);
  }
  SLUICE_DCHECK(parked_count_ == 0);
  pending_.clear();
  masked_.clear();
}

bool Controller::AbortEvent(uint16_t cid) {
  SLUICE_DCHECK_ON(shard_->reactor());
  Waiter* waiter = parked_.front();
  while (waiter != nullptr && static_cast<EventWait*>(waiter)->cid_ != cid) {
    waiter = parked_.after(waiter);
  }
  if (waiter == nullptr) return false;
  auto* wait = static_cast<EventWait*>(waiter);
  parked_.Remove(wait);
  --parked_count_;
  wait->aborted_ = true;
  shard_->reactor()->Schedule(wait);
  return true;
}

void Controller::NamespaceChanged(uint32_t nsid) {
  SLUICE_DCHECK_ON(shard_->reactor());
  auto& changed = changed_namespaces_;
  const auto place = std::lower_bound(changed.begin(), changed.end(), nsid);
  const bool known = place != changed.end() && *place == nsid;
  // One more than the log holds says that it overflowed.
  if (!known && changed.size() <= nvme::kNamespaceListMax) {
    changed.insert(place, nsid);
  }
  Raise(nvme::kNamespaceChanged);
}

}  // namespace sluice::target
