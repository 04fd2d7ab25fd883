// Faults of a FakeFabric: what devices, drivers and their users do wrong. Owned
// by the fabric, which hands it out. Each takes effect at once and lasts until
// Clear() or its opposite. Thread-safe.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <functional>
#include <string_view>

#include "absl/time/time.h"

namespace sluice {

namespace fake {
struct Fabric;
}  // namespace fake

// Which queue pairs a fault is for: in a test with both ends in one process,
// a target's are passive (accepted), a host's are active (connected).
enum class FakeSide { kBoth, kActive, kPassive };

class FakeFaults {
 public:
  explicit FakeFaults(fake::Fabric* fabric) : fabric_(fabric) {}

  // The n-th call from now (1 is the next) of a table function fails with
  // `error` and does nothing; so do the `count - 1` after it. `name` is the
  // field of VerbsApi; functions without a result cannot fail.
  void FailCall(std::string_view name, int n, int error, int count = 1);
  // The n-th call from now of any function that makes or changes something
  // fails: for sweeps over n. Calls that release, query the list of devices
  // or fetch an event do not count.
  void FailAnyCall(int n, int error);
  // Calls of that function so far, failed ones included; of every function
  // that FailAnyCall counts.
  int call_count(std::string_view name) const;
  int any_call_count() const;
  // Calls that these two made fail.
  int failed_call_count() const;

  // Every n-th CQ notification is lost; 0 loses none. The CQ is disarmed all
  // the same.
  void SwallowNotifications(int every_n);
  int swallowed_count() const;
  // Runs at the start of every req_notify_cq, before the CQ is armed, on the
  // caller's thread and with no lock held: the place to add a completion
  // between an empty poll and the arming. Null removes it.
  void OnArm(std::function<void(ibv_cq*)> callback);

  // Sends, writes and reads are launched but neither move nor complete, until
  // released; with a delay, each one until that long after its launch.
  void HoldSends(FakeSide side = FakeSide::kBoth);
  void DelaySends(absl::Duration delay, FakeSide side = FakeSide::kBoth);
  void ReleaseSends();

  // Queue pairs go to the error state and their work vanishes: no flush
  // completions.
  void DropFlushCompletions(bool drop, FakeSide side = FakeSide::kBoth);

  // Reuse-too-early detector, as siw sends by page reference: an unsignalled
  // WRITE of at least `bytes` (0 turns it off) reads its payload late, and
  // what follows it on the queue pair reaches the peer after it, although the
  // sender has its completions at once. It leaves when the last completion
  // behind it was polled and then `operations` more receive posts and polls
  // happened on the queue pair or its CQs; at the next arming at the latest. A
  // signalled WRITE, or a READ, pushes everything before it out.
  void LatePayload(size_t bytes, int operations = 1,
                   FakeSide side = FakeSide::kBoth);

  // Asynchronous events. The CQ dies and its queue pairs fail; the queue pair
  // fails; the other two only tell.
  void BreakCq(ibv_cq* cq);
  void BreakQp(ibv_qp* qp);
  void PortEvent(std::string_view device_name, bool active);
  void DeviceFatal(std::string_view device_name);

  // The device goes: DEVICE_FATAL, RDMA_CM_EVENT_DEVICE_REMOVAL on every id
  // bound to it, its queue pairs fail. Objects stay until destroyed. Then it
  // comes back as a new context.
  void RemoveDevice(std::string_view device_name);
  void ReturnDevice(std::string_view device_name);

  // Forgets every fault above and releases held sends. Removed devices stay
  // away.
  void Clear();

 private:
  fake::Fabric* fabric_;
};

}  // namespace sluice
