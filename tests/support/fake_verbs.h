// A verbs provider in process, for tests: PDs, MRs, QPs, CQs and connection
// manager ids with the limits, the traps and the error completions of real
// devices, and no wire. Both ends of a connection live in this process.
//
//   FakeFabric fabric;                     // one device, fake0, on 127.0.0.0/8
//   const VerbsApi& api = fabric.api();    // hand this to the code under test
//   fabric.faults().FailCall("create_qp", 1, ENOMEM);
//
// A fabric owns its devices and contexts. Its destructor CHECKs that every
// verbs object made on it was destroyed and every event acknowledged. Fabrics
// nest: the latest is Current(), which get_device_list, get_devices and
// create_event_channel use; every other call finds its fabric by its handle.
//
// What real hardware leaves hanging for ever fails a CHECK here: destroying a
// CQ or an id with unacknowledged events, migrating an id with some.
//
// Data moves with memmove under the fabric's one mutex, inside the post that
// makes it possible. Thread-safe. No thread of its own, except while
// FakeFaults::DelaySends is in use.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/fake_faults.h"
#include "transport/verbs/verbs_api.h"

namespace sluice {

namespace fake {
struct Fabric;
}  // namespace fake

// What one device can do. Defaults resemble rxe.
struct FakeDeviceOptions {
  // Addresses or prefixes ("10.1.0.0/16", "::1"). Empty: 127.0.0.0/8 and ::1
  // for fake0, 192.168.N.0/24 and fd00:N::/64 for fakeN.
  std::vector<std::string> addresses;

  uint32_t vendor_id = 0;
  bool iwarp = false;  // IBV_TRANSPORT_IWARP and its manners, else IB
  int max_qp_wr = 16384;
  int max_sge = 32;
  int max_sge_rd = 32;
  int max_cqe = 32767;
  int max_qp_rd_atom = 128;       // at most 255
  int max_qp_init_rd_atom = 128;  // at most 255
  uint32_t max_inline_bytes = 512;
  bool inline_with_invalidate = true;  // else SEND_WITH_INV has none
  // SENDs and WRITEs of at most so many bytes, not inline, are refused with one
  // SGE. siw takes them, and now and then loses the connection.
  uint32_t two_sges_up_to_bytes = 0;
  int comp_vectors = 2;
  bool mem_mgt_extensions = true;  // without it no SEND_WITH_INV

  // create_cq gives exactly what was asked; else 2^n - 1 entries, as mlx5.
  bool exact_cqe = false;
  // ibv_post_* return -errno, as siw does.
  bool negative_post_errno = false;
  // rdma_disconnect flushes the peer's queue pair too. False is what RoCE
  // does: the peer's stays in RTS until its own side acts, and what it sends
  // ends in RETRY_EXC_ERR. iWARP always flushes.
  bool flush_on_peer_disconnect = true;
  // Sinks of RDMA READs must be REMOTE_WRITE, as on iWARP hardware.
  bool read_sink_needs_remote_write = false;
  // DISCONNECTED is followed by TIMEWAIT_EXIT.
  bool timewait_exit = false;

  static FakeDeviceOptions Rxe();
  // Its vendor id, iWARP, 6 SGEs and 1 for READs, negative errno, exact CQs,
  // inline data with SENDs and WRITEs alone, short ones in two SGEs.
  static FakeDeviceOptions Siw();
};

// Objects alive and events delivered but not acknowledged.
struct FakeLiveObjects {
  int pds = 0;
  int mrs = 0;
  int comp_channels = 0;
  int cqs = 0;
  int qps = 0;
  int event_channels = 0;
  int ids = 0;
  int unacked_events = 0;  // of CQs, of ids and asynchronous ones

  int total() const {
    return pds + mrs + comp_channels + cqs + qps + event_channels + ids +
           unacked_events;
  }
  friend bool operator==(const FakeLiveObjects&,
                         const FakeLiveObjects&) = default;
};

class FakeFabric {
 public:
  FakeFabric();  // one device with default options
  // No device at all: create_event_channel gives ENODEV.
  explicit FakeFabric(std::vector<FakeDeviceOptions> devices);
  ~FakeFabric();
  FakeFabric(const FakeFabric&) = delete;
  FakeFabric& operator=(const FakeFabric&) = delete;

  // The latest fabric alive, or null.
  static FakeFabric* Current();

  // The table, faults included. The same for every fabric.
  const VerbsApi& api() const;
  FakeFaults& faults();

  FakeLiveObjects live_objects() const;

  // The context of a device that is present; CHECKs.
  ibv_context* context(std::string_view device_name) const;

  // The most completions the CQ ever held.
  int cq_high_water(ibv_cq* cq) const;
  // False once it overflowed or was broken by a fault.
  bool cq_alive(ibv_cq* cq) const;
  // What the device knows, which ibv_qp::state does not.
  ibv_qp_state qp_state(ibv_qp* qp) const;
  // The most RDMA READs the queue pair ever had in flight.
  uint32_t qp_reads_max(ibv_qp* qp) const;
  // SENDs that found no receive posted, on all queue pairs so far.
  uint64_t rnr_count() const;
  // Completions added to CQs so far, and those that did not fit.
  uint64_t completion_count() const;
  uint64_t overflow_count() const;

 private:
  std::unique_ptr<fake::Fabric> fabric_;
  FakeFaults faults_;
  FakeFabric* previous_;
};

}  // namespace sluice
