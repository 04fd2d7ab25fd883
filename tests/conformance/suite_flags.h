// What the command line of conformance_test said. Set once, before the tests.
#pragma once

#include <cstdint>
#include <string>

#include "tests/conformance/peer.h"

namespace sluice::conformance {

struct SuiteFlags {
  // "in-process", "in-process-iwarp"; "system", "iwarp": an external target.
  std::string provider = "in-process";
  std::string address = "127.0.0.1";
  uint16_t port = 4420;
  std::string nqn;
  Peer peer = Peer::kSluice;

  double slow = 1;      // all waits times this; CONFORMANCE_SLOW by default
  std::string results;  // a file for one line per test: PASS, FAIL, SKIP

  uint32_t storm_count = 100;  // reconnects of Storm.*
  bool sizing = false;         // runs Sizing.*
  uint32_t queue_count = 600;  // of Sizing.Burst
  uint32_t queue_depth = 128;
  uint32_t round_count = 3;
  uint32_t cycle_count = 1000;  // of Sizing.Cycles
  // The target's --max-queues; 0: it has none, and Sizing.BeyondTheLimit skips.
  uint32_t max_queues = 0;
  uint32_t shared_receives = 0;  // of a target in process

  bool external() const { return provider == "system" || provider == "iwarp"; }
};

SuiteFlags& Flags();

}  // namespace sluice::conformance
