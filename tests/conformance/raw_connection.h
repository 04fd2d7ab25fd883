// One RDMA connection to a target, host side, that can break every rule: any
// private data, any capsule of any length, any key. It uses a VerbsApi table
// and the inline data path of libibverbs, and nothing of transport/, so that
// one mistake cannot hide another.
//
// Blocking, with deadlines: Open, Connect, Send…, Wait… return when it happened
// or when the wait is over. Owned by one thread. Everything it makes (PD, CQ,
// queue pair, id, event channel) is its own and dies with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "nvme/private_data.h"
#include "nvme/sqe.h"
#include "tests/conformance/patience.h"
#include "tests/conformance/raw_memory.h"
#include "transport/verbs/verbs_api.h"

namespace sluice::conformance {

using Bytes = std::vector<std::byte>;

struct RawConnectionOptions {
  std::string address;  // IPv4 or IPv6
  uint16_t port = 4420;
  Bytes private_data;  // of the request, any length
  uint32_t receive_count =
      32;                    // posted before connecting, reposted when reaped
  uint32_t send_count = 32;  // capsules not yet completed
  uint32_t capsule_bytes_max = 64;  // of what this client sends
  // RDMA READs that the target may have in flight here, and we there.
  uint8_t responder_resources = 16;
  uint8_t initiator_depth = 0;
  // How often the target's sends are tried again while no receive is posted
  // here; 7: for ever.
  uint8_t rnr_retry_count = 7;
  bool has_channel = false;  // its CQ announces completions on one
};

// What came of a connection request.
struct ConnectAnswer {
  enum class Kind { kEstablished, kRejected, kUnreachable, kSilence, kError };

  Kind kind = Kind::kError;
  int status = 0;      // of the event, or errno
  Bytes private_data;  // of the accept or reject
  // RDMA READs that the target may have in flight, as it said on accepting.
  uint8_t read_depth = 0;

  bool established() const { return kind == Kind::kEstablished; }
  nvme::RejectReason reason() const;
  // "established", "rejected 4", "rejected" (without a code), "unreachable",
  // "no answer", "local error 22".
  std::string text() const;
};

struct RawResponse {
  nvme::Cqe cqe;
  uint32_t length_bytes = 0;  // of the SEND
  bool with_invalidate = false;
  uint32_t invalidated_key = 0;

  nvme::Status status() const { return cqe.status(); }
  bool ok() const { return cqe.status().ok(); }
};

class RawConnection {
 public:
  // Resolves the address, makes the queue pair, posts the receives.
  static absl::StatusOr<std::unique_ptr<RawConnection>> Open(
      const VerbsApi& api, const RawConnectionOptions& options);
  // Vanishes, if nobody has disconnected.
  ~RawConnection();
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  // Both, or the request alone.
  ConnectAnswer Connect(absl::Duration wait = kWait);
  int StartConnect();  // 0 or an errno
  ConnectAnswer WaitConnected(absl::Duration wait = kWait);

  bool is_iwarp() const;
  // As ConnectAnswer has it; 0 before.
  uint8_t read_depth() const { return read_depth_; }
  const VerbsApi& api() const { return api_; }
  ibv_pd* pd() const { return pd_; }
  ibv_qp* qp() const { return id_->qp; }
  // For who posts and polls by himself from now on: the receive with wr_id i is
  // of kCqeBytes at i * kCqeBytes, and all of them are posted.
  RawMemory& receive_memory() { return *receive_memory_; }
  absl::StatusOr<std::unique_ptr<RawMemory>> CreateMemory(size_t length_bytes);

  // --- Data path, raw_connection_datapath.cc

  // One SEND of exactly these bytes, copied. Waits for a free send slot.
  absl::Status SendCapsule(absl::Span<const std::byte> bytes);
  absl::Status SendCommand(const nvme::Sqe& sqe);
  // Any other work request; its wr_id is overwritten. Memory it names must
  // live until WaitSent() or the connection's end.
  absl::Status Post(ibv_send_wr wr);

  // The next response with this cid; any response; how many have come in all.
  // kUnavailable when the connection ended, kDeadlineExceeded when it is late,
  // kDataLoss for a response that is not 16 bytes long.
  absl::StatusOr<RawResponse> WaitResponse(uint16_t cid,
                                           absl::Duration wait = kWait);
  absl::StatusOr<RawResponse> WaitAnyResponse(absl::Duration wait = kWait);
  bool HasResponse(uint16_t cid);
  uint64_t response_count() const { return response_count_; }

  // All sends are completed, with or without success.
  absl::Status WaitSent(absl::Duration wait = kWait);

  // --- The end

  // Looks at events and completions; true once the peer has disconnected, or
  // the queue pair has failed.
  bool ended();
  bool WaitEnd(absl::Duration wait = kWait);
  // Of the first failed completion, or IBV_WC_SUCCESS.
  ibv_wc_status first_error() const { return first_error_; }

  // An orderly goodbye, which also flushes the queue pair.
  void Disconnect();
  // The queue pair alone goes, without a word; the target finds out by itself.
  void DestroyQp();

 private:
  RawConnection(const VerbsApi& api, const RawConnectionOptions& options);

  absl::Status Resolve();
  absl::Status MakeQp();
  absl::Status PostReceives();

  struct CmSeen {
    rdma_cm_event_type type;
    int status;
    Bytes private_data;
    uint8_t read_depth;
  };
  // False if no event came before the deadline.
  bool TakeEvent(Deadline* deadline, CmSeen* seen);
  bool TakeEventNow(CmSeen* seen);
  absl::Status AwaitEvent(rdma_cm_event_type type);

  void PollCompletions();
  void Completed(const ibv_wc& wc);
  void Received(const ibv_wc& wc);
  int PostReceive(uint32_t index);
  absl::StatusOr<uint32_t> TakeSendSlot();

  const VerbsApi& api_;
  const RawConnectionOptions options_;
  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* id_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* completion_channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  std::unique_ptr<RawMemory> receive_memory_;
  std::unique_ptr<RawMemory> send_memory_;

  std::vector<uint32_t> free_send_slots_;
  std::deque<RawResponse> responses_;
  uint8_t read_depth_ = 0;
  uint64_t response_count_ = 0;
  bool qp_failed_ = false;
  bool disconnected_ = false;  // by either side
  ibv_wc_status first_error_ = IBV_WC_SUCCESS;
};

}  // namespace sluice::conformance
