// An RDMA device as the transport sees it: what it can do, and where it differs
// from its fellows, as data. Differences are never branches on a name in the
// code.
//
// Owned by the connection manager, read by every reactor; immutable.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "transport/verbs/verbs_api.h"

namespace sluice::transport {

struct DeviceTraits {
  std::string name;
  bool iwarp = false;
  uint32_t cq_entries_max = 0;
  uint32_t qp_wr_max = 0;
  uint32_t srq_wr_max = 0;  // receives of a shared queue; 0: it has none
  uint32_t sge_max = 1;
  uint32_t read_depth_max = 1;  // RDMA READs this side may have in flight
  int completion_vectors = 1;
  // SEND_WITH_INV works (IBV_DEVICE_MEM_MGT_EXTENSIONS).
  bool send_with_invalidate = false;
  // A SEND_WITH_INV may carry its data inline. siw takes inline data with plain
  // SENDs and WRITEs only.
  bool inline_with_invalidate = true;
  // The sink of an RDMA READ must allow REMOTE_WRITE, as RNIC cards want it:
  // then it is memory of one queue pair alone.
  bool private_read_sinks = false;
  // A WRITE of at least this many bytes must itself be signalled, else its
  // buffer is still read after a later SEND has completed (siw sends pages by
  // reference).
  uint32_t signal_writes_from_bytes = UINT32_MAX;

  // A SEND or WRITE of at most so many bytes, not inline, goes out as two SGEs,
  // the second empty. siw copies a shorter one out of the poster's address
  // space, and does so too when its own thread, which has none, goes on with
  // the chain (siw_try_1seg and in_syscall, Linux 6.1 and 6.12): the connection
  // is lost. What comes in more pieces than one it takes by page.
  uint32_t two_sges_up_to_bytes = 0;

  // The first capsule may come before the device looks at the socket, and then
  // lies there until more comes: siw replies to the host before it takes the
  // socket over (siw_accept, Linux 6.1 and 6.12).
  bool loses_first_capsule = false;

  // Sends pages by reference, checksummed before they leave: what it sends must
  // not change meanwhile.
  bool sends_by_reference() const {
    return signal_writes_from_bytes != UINT32_MAX;
  }
};

// Asks the device. Errors: what ibv_query_device says.
absl::StatusOr<DeviceTraits> QueryTraits(const VerbsApi& api,
                                         ibv_context* context);

}  // namespace sluice::transport
