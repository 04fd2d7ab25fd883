// What comes out of channels, taken and acknowledged as soon as it is there,
// and kept in order for a test to look at.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/time/time.h"
#include "tests/verbs/pump.h"

namespace sluice::verbs {

using Bytes = std::vector<std::byte>;

// A copy of an rdma_cm_event.
struct CmSeen {
  rdma_cm_event_type type = RDMA_CM_EVENT_ADDR_ERROR;
  int status = 0;
  rdma_cm_id* id = nullptr;
  rdma_cm_id* listen_id = nullptr;
  Bytes private_data;
  uint8_t initiator_depth = 0;
  uint8_t responder_resources = 0;
};

// An event channel of the connection manager. Ids on it go first.
class CmEvents : public Pumped {
 public:
  CmEvents();
  ~CmEvents() override;

  rdma_event_channel* channel() { return channel_; }
  // Takes what is there.
  void Pump() override;
  // The next event, in order; a failure, and an empty one, when none comes in
  // time or it is of another type.
  CmSeen Expect(rdma_cm_event_type type, absl::Duration wait = kWait);
  bool Has(rdma_cm_event_type type) const;
  int Count(rdma_cm_event_type type) const;

  std::deque<CmSeen> seen;  // not yet expected
  bool held = false;        // events stay where they are

 private:
  rdma_event_channel* channel_;
};

// The device's asynchronous events. One at a time in a process: it takes them
// all, of whatever object.
class AsyncEvents : public Pumped {
 public:
  AsyncEvents();
  void Pump() override;
  int Count(ibv_event_type type, const void* element) const;

 private:
  struct Seen {
    ibv_event_type type;
    const void* element;  // QP, CQ or SRQ
  };
  std::vector<Seen> seen_;
};

}  // namespace sluice::verbs
