// The load generator: capsules to a CqServer and answers from it, over queue
// pairs that share one CQ. It always polls: an instrument that is the same
// whatever the other end does. It is written on plain verbs, and nothing of
// transport/ but the table.
//
// Owned by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/bench/cq/cq_load.h"
#include "transport/verbs/verbs_api.h"

namespace sluice::bench {

struct CqClientOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 0;
  uint32_t queue_pairs = 4;
  uint32_t depth = 32;  // messages in flight on each
  uint32_t message_bytes = 128;
};

class CqClient {
 public:
  static absl::StatusOr<std::unique_ptr<CqClient>> Connect(
      const VerbsApi& api, const CqClientOptions& options);
  ~CqClient();
  CqClient(const CqClient&) = delete;
  CqClient& operator=(const CqClient&) = delete;

  // Errors: kUnavailable when a queue pair broke, kDeadlineExceeded when an
  // answer has not come for 30 seconds.
  absl::StatusOr<CqLoadResult> Run(const CqLoad& load);

 private:
  struct Slot {  // of one message
    ibv_sge sge = {};
    ibv_send_wr wr = {};
    int64_t due_nanos = 0;
    uint32_t qp_index = 0;
    bool first = false;  // after a pause
  };
  struct Receive {
    ibv_sge sge = {};
    ibv_recv_wr wr = {};
  };
  struct Connection {
    rdma_cm_id* id = nullptr;
    uint32_t unsignalled = 0;
    ibv_send_wr* first = nullptr;  // chain to post
    ibv_send_wr* last = nullptr;
    ibv_recv_wr* first_receive = nullptr;
    ibv_recv_wr* last_receive = nullptr;
    std::vector<uint32_t> free_slots;
  };

  CqClient(const VerbsApi& api, const CqClientOptions& options)
      : api_(api), options_(options) {}
  absl::Status Open();
  absl::Status OpenConnection(uint32_t index);
  absl::Status MakeShared(ibv_context* context);
  absl::Status MakeQueuePair(uint32_t index);
  absl::Status Await(rdma_cm_event_type type);

  // Takes what has come; adds to `result`. False: broken.
  bool Poll(CqLoadResult* result);
  bool Answered(const ibv_wc& wc, int64_t now_nanos, CqLoadResult* result);
  // A message that was due then; false when all slots are in flight.
  bool Send(int64_t due_nanos, bool first);
  bool Post();
  absl::Status Broken() const;
  int64_t Gap(double rate);
  int64_t Pause(int64_t most);

  const VerbsApi& api_;
  const CqClientOptions options_;
  std::vector<std::byte> buffer_;
  rdma_event_channel* channel_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  bool is_inline_ = false;
  std::vector<Connection> connections_;
  std::vector<Slot> slots_;        // by number: cid
  std::vector<Receive> receives_;  // depth for each queue pair
  uint32_t in_flight_ = 0;
  uint32_t next_ = 0;  // queue pair that sends next
  std::minstd_rand random_{20261130};
  std::string error_;
};

}  // namespace sluice::bench
