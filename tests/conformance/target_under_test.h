// The target that the suite talks to: where it is and what it offers. One is
// external, reached through the system's verbs or our iWARP provider; the other
// runs in this process, over the fake provider or over iWARP on loopback. Owned
// by the fixture.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/conformance/peer.h"
#include "tests/conformance/raw_host.h"
#include "transport/verbs/verbs_api.h"

namespace sluice::conformance {

// What the target tells its hosts. True numbers.
struct TargetLimits {
  uint32_t transfer_bytes_max = 0;     // MDTS
  uint32_t in_capsule_bytes = 0;       // IOCCSZ less the SQE
  uint32_t io_depth_max = 0;           // MQES + 1
  uint32_t io_queue_count_max = 0;     // granted to one controller
  uint32_t keyed_descriptors_max = 1;  // MSDBD
  uint32_t aer_count_max = 1;          // AERL + 1
  uint32_t kato_granularity_ms = 0;    // KAS
  uint32_t nsid_max = 0;               // NN
  uint16_t oncs = 0;
  uint16_t oacs = 0;
  uint8_t vwc = 0;
  uint8_t cmic = 0;
  uint8_t lpa = 0;
  uint32_t oaes = 0;
  uint16_t ofcs = 0;

  // The first active namespace.
  uint32_t nsid = 0;
  uint64_t block_count = 0;
  uint32_t block_bytes = 0;
  uint8_t dlfeat = 0;
  uint32_t absent_nsid = 0;  // valid but not active; 0 if all are
};

// Asks a running target.
absl::StatusOr<TargetLimits> LearnLimits(const RawHost& host);

class TargetUnderTest {
 public:
  virtual ~TargetUnderTest() = default;
  TargetUnderTest(const TargetUnderTest&) = delete;
  TargetUnderTest& operator=(const TargetUnderTest&) = delete;

  // A host that it admits, set for its subsystem.
  const RawHost& host() const { return host_; }
  RawHost discovery_host() const;
  Peer peer() const { return peer_; }
  const TargetLimits& limits() const { return limits_; }

  // From now on each SEND, READ and WRITE of the target takes that long; zero:
  // no longer. False where nobody can do that: an external target.
  virtual bool DelaySends(absl::Duration) { return false; }

 protected:
  TargetUnderTest(Peer peer, RawHost host) : peer_(peer), host_(host) {}

  const Peer peer_;
  const RawHost host_;
  TargetLimits limits_;
};

class ExternalTarget final : public TargetUnderTest {
 public:
  static absl::StatusOr<std::unique_ptr<ExternalTarget>> Find(
      const VerbsApi& api, Peer peer, const std::string& address, uint16_t port,
      const std::string& nqn);

 private:
  using TargetUnderTest::TargetUnderTest;
};

// Starts a target in this process over a fabric of its own, which goes when
// the target goes and CHECKs that nothing leaked; or over the iWARP provider.
// kUnimplemented when this build has none.
absl::StatusOr<std::unique_ptr<TargetUnderTest>> StartInProcessTarget();
absl::StatusOr<std::unique_ptr<TargetUnderTest>> StartInProcessIwarpTarget();

}  // namespace sluice::conformance
