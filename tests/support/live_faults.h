// Faults of what carries a LiveTarget's connections, a FakeFabric or the
// built-in iWARP provider: those that both can have, of the target's side. They
// last until Clear() or their opposite. Owned by the LiveTarget.
#pragma once

#include "absl/time/time.h"
#include "tests/support/fake_faults.h"

namespace sluice {

class LiveFaults {
 public:
  // Null: of the built-in provider, where the thread that makes this one, with
  // its hosts, is spared.
  explicit LiveFaults(FakeFaults* fake);
  ~LiveFaults();
  LiveFaults(const LiveFaults&) = delete;
  LiveFaults& operator=(const LiveFaults&) = delete;

  // Sends, WRITEs and READs complete when released, or so much later. The fake
  // does not even carry them out before.
  void HoldSends();
  void DelaySends(absl::Duration delay);
  void ReleaseSends();
  // What is flushed does not complete.
  void DropFlushes();
  // Every n-th notification is lost.
  void SwallowNotifications(int every_n);
  int swallowed_count() const;
  // The n-th call from now that makes or changes something fails. Of the fake's
  // the hosts' count, too.
  void FailAnyCall(int n, int error);
  int failed_count() const;

  void Clear();

 private:
  FakeFaults* const fake_;
};

}  // namespace sluice
