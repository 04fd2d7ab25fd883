// A queue pair of a FakeFabric and the steps of its data path. Owned by its
// Fabric, guarded by its mutex.
//
// Nothing here recurses: a step that concerns another queue pair puts it on one
// of the fabric's two work lists (Wake, Fail), and Settle empties the lists
// before the mutex is released.
#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "tests/support/fake_verbs_objects.h"

namespace sluice::fake {

struct Id;

using Clock = std::chrono::steady_clock;
using Sges = absl::InlinedVector<ibv_sge, 2>;

struct SendWr {
  uint64_t wr_id = 0;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  bool signalled = false;
  bool solicited = false;
  bool is_inline = false;
  uint32_t imm_or_rkey = 0;  // imm_data, or the key to invalidate
  uint64_t remote_address = 0;
  uint32_t rkey = 0;
  Sges sges;
  uint32_t length_bytes = 0;
  std::vector<std::byte> payload;  // copied early: inline data, or on the wire
  Clock::time_point due = {};      // once launched
  bool too_many_reads = false;     // the peer answers fewer at a time
  bool rnr_counted = false;
};

struct RecvWr {
  uint64_t wr_id = 0;
  Sges sges;
};

// RESET -> INIT -> RTR -> RTS by modify_qp, or INIT by create_qp and RTS by
// the connection manager; any -> ERR by either, an error or a fault; any ->
// RESET by modify_qp.
struct Qp : ibv_qp {
  static Qp* From(ibv_qp* qp) { return static_cast<Qp*>(qp); }
  Context* device_context() const { return Context::From(context); }
  const FakeDeviceOptions& options() const {
    return device_context()->options();
  }

  Fabric* fabric = nullptr;
  Id* id = nullptr;
  Qp* peer = nullptr;  // null: not connected, or the peer's was destroyed
  bool is_passive = false;
  ibv_qp_state live_state = IBV_QPS_RESET;  // ibv_qp::state is the user's view
  ibv_qp_cap cap = {};
  bool signal_all = false;
  unsigned int unacked_async_events = 0;

  uint32_t max_rd_atomic = 0;       // own READs in flight
  uint32_t max_dest_rd_atomic = 0;  // the peer's
  uint8_t rnr_retry = 7;            // 7: for ever

  // The first `launched_count` of `sends` are on their way. Entries count as
  // outstanding until their completion, or that of a later signalled one, was
  // polled.
  std::deque<SendWr> sends;
  size_t launched_count = 0;
  uint32_t outstanding_sends = 0;
  int unsignalled_done = 0;  // done since the last completion
  uint32_t reads_in_flight = 0;
  uint32_t reads_max = 0;
  std::deque<RecvWr> receives;
  uint32_t outstanding_receives = 0;

  // Late payloads (FakeFaults::LatePayload): completed here, not yet there.
  std::deque<SendWr> wire;
  uint32_t wire_generation = 1;  // counts how often the wire was emptied
  int wire_unpolled = 0;         // signalled ones not polled yet
  int wire_countdown = 0;        // of operations until it may leave

  bool is_failing = false;   // on Fabric::failing
  bool is_runnable = false;  // on Fabric::runnable
};

// Puts the queue pair on the list of those that may be able to go on.
void Wake(Qp* qp);
// Error state: everything posted will be flushed, the peer told as the
// transport does it.
void Fail(Qp* qp);
// Empties both lists. Every call that posted, woke or failed ends with it.
void Settle(Fabric* fabric);

// fake_verbs_run.cc: launches and finishes what can be; flushes everything.
void Run(Qp* qp);
void Flush(Qp* qp);

// fake_verbs_move.cc: does what the request asks for. Returns its status, or
// nothing if it must wait for a receive of the peer.
std::optional<ibv_wc_status> Execute(Qp* qp, SendWr* wr);
// Delivers what the late-payload fault keeps on the wire.
void DrainWire(Qp* qp);
// An operation on `qp`, or on any queue pair of `cq`, happened; arming drains.
void AgeWires(Fabric* fabric, const Qp* qp, const Cq* cq, bool arming);

// fake_verbs_memory.cc: the region that allows this, or null.
Mr* FindLocal(const Qp& qp, const ibv_sge& sge, bool write, bool read_sink);
Mr* FindRemote(const Qp& qp, uint32_t rkey, uint64_t address,
               uint64_t length_bytes, int access);

}  // namespace sluice::fake
