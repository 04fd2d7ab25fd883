// A whole target in this process: reactors on threads of their own, over a
// FakeFabric or the built-in iWARP provider, and a raw host that connects to
// it. The fabric outlives the target and CHECKs that nothing of either side is
// left.
//
//   LiveTarget live(LiveTarget::Options());
//   auto controller = conformance::RawController::ConnectEnabled(live.host());
//
// Owned by the test's thread. What it waits for has a minute.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "target/target.h"
#include "tests/conformance/raw_controller.h"
#include "tests/conformance/raw_host.h"
#include "tests/support/fake_verbs.h"
#include "tests/support/live_faults.h"

namespace sluice {

// What a host costs a target and its process, and what has to come back when
// the host has gone. Registered memory and CQs are kept for the next host. CQ
// events, acknowledged in batches, are left out. Of the built-in provider's
// objects it knows the queue pairs.
struct Holdings {
  FakeLiveObjects objects;
  uint64_t queues = 0;
  uint64_t connections = 0;
  uint64_t controllers = 0;
  uint64_t cq_reserved = 0;
  uint64_t cq_outstanding = 0;
  uint64_t pool_used_bytes = 0;
  uint64_t registered_bytes = 0;
  size_t file_descriptors = 0;

  friend bool operator==(const Holdings&, const Holdings&) = default;
};
std::ostream& operator<<(std::ostream& out, const Holdings& holdings);

// A controller with one I/O queue.
struct LiveHost {
  std::unique_ptr<conformance::RawController> controller;
  std::unique_ptr<conformance::RawQueue> queue;  // goes first
};

// For those whom the fakes' devices do not tell enough.
enum class LiveProvider { kFake, kIwarp };
std::string NameOf(LiveProvider provider);

class LiveTarget {
 public:
  // One namespace, "ram:64M"; loopback; one reactor; only errors are logged.
  static target::TargetOptions Options();

  explicit LiveTarget(const target::TargetOptions& options,
                      const FakeDeviceOptions& device = {})
      : LiveTarget(options, std::vector<FakeDeviceOptions>{device}) {}
  LiveTarget(const target::TargetOptions& options,
             std::vector<FakeDeviceOptions> devices);
  LiveTarget(const target::TargetOptions& options, LiveProvider provider);
  // Stops the target, unless that has been done.
  ~LiveTarget();
  LiveTarget(const LiveTarget&) = delete;
  LiveTarget& operator=(const LiveTarget&) = delete;

  FakeFabric& fabric() { return *fabric_; }
  LiveFaults& faults() { return faults_; }
  target::Target& target() { return *target_; }
  // Of the first listener, on 127.0.0.1.
  const conformance::RawHost& host() const { return host_; }
  // Of another one, which is at that address.
  conformance::RawHost host(size_t listener, const std::string& address) const;

  // Enabled, with queue 1 of that depth, and this much room for in-capsule and
  // for other data. CHECKs.
  LiveHost Connect(uint32_t depth, uint32_t in_capsule_bytes = 0,
                   size_t data_bytes = 64 * 1024) {
    return Connect(host_, depth, in_capsule_bytes, data_bytes);
  }
  LiveHost Connect(const conformance::RawHost& host, uint32_t depth,
                   uint32_t in_capsule_bytes = 0,
                   size_t data_bytes = 64 * 1024);

  target::TargetSnapshot Snapshot() { return target_->Snapshot(); }
  Holdings Held();
  // Held() once no host is left.
  Holdings HeldByNobody();
  // False when `reached` was not true of it within a minute.
  bool Until(const std::function<bool()>& reached);
  // The same for Held() == `wanted`; the last one seen.
  Holdings UntilHeld(const Holdings& wanted);

  // Target::Stop().
  bool Stop();

 private:
  LiveTarget(const target::TargetOptions& options,
             std::unique_ptr<FakeFabric> fabric);

  const std::unique_ptr<FakeFabric> fabric_;  // null: the built-in provider
  LiveFaults faults_;
  std::unique_ptr<target::Target> target_;
  conformance::RawHost host_;
};

}  // namespace sluice
