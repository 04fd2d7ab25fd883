// FakeFaults, and what only faults need: failed calls, the delay thread,
// devices that go and come back.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "core/check.h"
#include "tests/support/fake_faults.h"
#include "tests/support/fake_verbs_fabric.h"

namespace sluice {
namespace fake {
namespace {

// Calls since the plan was made are counted by counting `first` down.
bool IsDue(FaultPlan::FailedCalls* plan) {
  if (plan->first > 1) {
    --plan->first;
    return false;
  }
  if (plan->count == 0) return false;
  --plan->count;
  return true;
}

void WakeAll(Fabric* fabric) {
  for (const auto& qp : fabric->qps.all()) Wake(qp.get());
  Settle(fabric);
}

// Lets everything launched go at once.
void Release(Fabric* fabric) {
  fabric->faults.hold_sends = false;
  fabric->faults.delay = Clock::duration::zero();
  for (const auto& qp : fabric->qps.all()) {
    for (SendWr& wr : qp->sends) wr.due = {};
  }
  WakeAll(fabric);
}

void ReleaseWires(Fabric* fabric) {
  fabric->faults.late_bytes = 0;
  for (const auto& qp : fabric->qps.all()) DrainWire(qp.get());
  Settle(fabric);
}

// Of what was not due at `now`: other requests wait for a receive, not for the
// clock.
Clock::time_point EarliestDue(const Fabric& fabric, Clock::time_point now) {
  Clock::time_point earliest = Clock::time_point::max();
  for (const auto& qp : fabric.qps.all()) {
    if (qp->launched_count == 0) continue;
    const Clock::time_point due = qp->sends.front().due;
    if (due > now) earliest = std::min(earliest, due);
  }
  return earliest;
}

void RunDelays(Fabric* fabric) {
  std::unique_lock lock(fabric->mutex);
  while (!fabric->stopping) {
    const Clock::time_point now = Clock::now();
    WakeAll(fabric);
    const Clock::time_point due = EarliestDue(*fabric, now);
    if (due == Clock::time_point::max()) {
      fabric->delay_wakeup.wait(lock);
    } else {
      fabric->delay_wakeup.wait_until(lock, due);
    }
  }
}

void TellDevice(Context* context, ibv_event_type type) {
  ibv_async_event event = {};
  event.event_type = type;
  event.element.port_num = 1;
  PushAsyncEvent(context, event);
}

Context* PresentContext(const Fabric& fabric, std::string_view name) {
  Context* context = DeviceNamed(fabric, name)->present;
  SLUICE_CHECK(context != nullptr);
  return context;
}

}  // namespace

int CountCall(Fabric* fabric, const char* name, bool counts) {
  const std::lock_guard lock(fabric->mutex);
  ++fabric->call_counts[name];
  if (counts) ++fabric->any_call_count;
  int error = 0;
  for (FaultPlan::FailedCalls& plan : fabric->faults.failed_calls) {
    const bool matches = plan.name.empty() ? counts : plan.name == name;
    if (matches && IsDue(&plan)) error = plan.error;
  }
  if (error != 0) ++fabric->failed_call_count;
  return error;
}

}  // namespace fake

void FakeFaults::FailCall(std::string_view name, int n, int error, int count) {
  SLUICE_CHECK(n > 0);
  SLUICE_CHECK(error > 0);
  const std::lock_guard lock(fabric_->mutex);
  fabric_->faults.failed_calls.push_back(
      {.name = std::string(name), .first = n, .count = count, .error = error});
}

void FakeFaults::FailAnyCall(int n, int error) { FailCall("", n, error); }

int FakeFaults::call_count(std::string_view name) const {
  const std::lock_guard lock(fabric_->mutex);
  const auto found = fabric_->call_counts.find(name);
  return found == fabric_->call_counts.end() ? 0 : found->second;
}

int FakeFaults::any_call_count() const {
  const std::lock_guard lock(fabric_->mutex);
  return fabric_->any_call_count;
}

int FakeFaults::failed_call_count() const {
  const std::lock_guard lock(fabric_->mutex);
  return fabric_->failed_call_count;
}

void FakeFaults::SwallowNotifications(int every_n) {
  const std::lock_guard lock(fabric_->mutex);
  fabric_->faults.swallow_every = every_n;
  fabric_->notification_count = 0;
}

int FakeFaults::swallowed_count() const {
  const std::lock_guard lock(fabric_->mutex);
  return fabric_->swallowed_count;
}

void FakeFaults::OnArm(std::function<void(ibv_cq*)> callback) {
  const std::lock_guard lock(fabric_->mutex);
  fabric_->faults.on_arm = std::move(callback);
}

void FakeFaults::HoldSends(FakeSide side) {
  const std::lock_guard lock(fabric_->mutex);
  fabric_->faults.hold_sends = true;
  fabric_->faults.hold_side = side;
}

void FakeFaults::DelaySends(absl::Duration delay, FakeSide side) {
  const std::lock_guard lock(fabric_->mutex);
  fabric_->faults.hold_sends = false;
  fabric_->faults.delay = absl::ToChronoNanoseconds(delay);
  fabric_->faults.hold_side = side;
  if (!fabric_->delay_thread.joinable()) {
    fabric_->delay_thread = std::thread(&fake::RunDelays, fabric_);
  }
}

void FakeFaults::ReleaseSends() {
  const std::lock_guard lock(fabric_->mutex);
  fake::Release(fabric_);
}

void FakeFaults::DropFlushCompletions(bool drop, FakeSide side) {
  const std::lock_guard lock(fabric_->mutex);
  fabric_->faults.drop_flushes = drop;
  fabric_->faults.drop_side = side;
}

void FakeFaults::LatePayload(size_t bytes, int operations, FakeSide side) {
  const std::lock_guard lock(fabric_->mutex);
  fake::ReleaseWires(fabric_);
  fabric_->faults.late_bytes = bytes;
  fabric_->faults.late_operations = operations;
  fabric_->faults.late_side = side;
}

void FakeFaults::BreakCq(ibv_cq* cq) {
  const std::lock_guard lock(fabric_->mutex);
  fake::KillCq(fake::Cq::From(cq));
  fake::Settle(fabric_);
}

void FakeFaults::BreakQp(ibv_qp* raw) {
  const std::lock_guard lock(fabric_->mutex);
  fake::Qp* qp = fake::Qp::From(raw);
  ibv_async_event event = {};
  event.event_type = IBV_EVENT_QP_FATAL;
  event.element.qp = raw;
  fake::PushAsyncEvent(qp->device_context(), event);
  fake::Fail(qp);
  fake::Settle(fabric_);
}

void FakeFaults::PortEvent(std::string_view device_name, bool active) {
  const std::lock_guard lock(fabric_->mutex);
  fake::TellDevice(fake::PresentContext(*fabric_, device_name),
                   active ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
}

void FakeFaults::DeviceFatal(std::string_view device_name) {
  const std::lock_guard lock(fabric_->mutex);
  fake::TellDevice(fake::PresentContext(*fabric_, device_name),
                   IBV_EVENT_DEVICE_FATAL);
}

void FakeFaults::RemoveDevice(std::string_view device_name) {
  const std::lock_guard lock(fabric_->mutex);
  fake::Context* context = fake::PresentContext(*fabric_, device_name);
  context->removed = true;
  context->device->present = nullptr;
  fake::TellDevice(context, IBV_EVENT_DEVICE_FATAL);
  for (const auto& id : fabric_->ids.all()) {
    if (id->device_context() == context) fake::RemoveFromDevice(id.get());
  }
  for (const auto& qp : fabric_->qps.all()) {
    if (qp->device_context() == context) fake::Fail(qp.get());
  }
  fake::Settle(fabric_);
}

void FakeFaults::ReturnDevice(std::string_view device_name) {
  const std::lock_guard lock(fabric_->mutex);
  fake::AddContext(fabric_, fake::DeviceNamed(*fabric_, device_name));
}

void FakeFaults::Clear() {
  const std::lock_guard lock(fabric_->mutex);
  fake::ReleaseWires(fabric_);
  fake::Release(fabric_);
  fabric_->faults = {};
}

}  // namespace sluice
