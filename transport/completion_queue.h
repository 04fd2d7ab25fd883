// One completion queue: the verbs object, its ledger, its flight recorder and
// the state of its notification. Owned by a LocalDevice, run by the CqEngine of
// its reactor.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "transport/cq_ledger.h"
#include "transport/flight_recorder.h"
#include "transport/verbs_ptr.h"
#include "transport/wc_status.h"
#include "transport/wr_tag.h"

namespace sluice::transport {

class LocalDevice;

// What a CQ has seen.
struct CqStats {
  // The sizes of polls that found something: 1, 2, 3 to 4, 5 to 8, … 33 to 64.
  static constexpr size_t kBatchSizes = 7;

  static size_t BatchIndex(int count) {
    return static_cast<size_t>(
        std::bit_width(static_cast<uint32_t>(count - 1)));
  }
  void Add(const CqStats& other);

  uint64_t completions = 0;
  uint64_t errors = 0;  // completions with an error, flushes apart
  uint64_t flushes = 0;
  uint64_t empty_polls = 0;
  uint64_t batches = 0;  // polls that found something
  uint64_t arms = 0;
  uint64_t events = 0;        // taken from the channel
  uint64_t acknowledged = 0;  // events, given back to the CQ
  uint64_t rescued = 0;       // nobody announced them: a bug
  uint64_t stale = 0;         // for a queue pair that is gone: dropped
  std::array<uint64_t, kWrKinds> by_kind{};         // WrKind
  std::array<uint64_t, kWcStatuses> by_status{};    // WcStatusIndex()
  std::array<uint64_t, kBatchSizes> batch_sizes{};  // BatchIndex()
};

struct CompletionQueue {
  CompletionQueue(LocalDevice* owner, VerbsPtr<ibv_cq> made, uint32_t capacity)
      : device(owner), cq(std::move(made)), ledger(capacity) {}

  LocalDevice* const device;
  VerbsPtr<ibv_cq> cq;
  CqLedger ledger;
  FlightRecorder recorder;
  CqStats stats;
  // Notification: armed from req_notify until its event is taken.
  bool armed = false;
  bool armed_solicited = false;  // for solicited completions only
  // SENDs, WRITEs and READs that will have a completion: what is armed for
  // solicited ones only would sleep over those.
  uint32_t sends_out = 0;
  uint32_t events_unacked = 0;
  // A reactor that slept through its safety period found completions here, and
  // no event yet: when it does not come soon, nobody announced them.
  uint32_t suspects = 0;
  int64_t suspect_since_nanos = 0;
  // Set by IBV_EVENT_CQ_ERR or a failing poll: no new queue pairs, those on it
  // are torn down.
  bool dead = false;
};

}  // namespace sluice::transport
