// One I/O queue under load, host side: commands of one size, `depth` of them
// always in flight. The queue pair is conformance::RawQueue's, connected; from
// then on this posts and polls by itself, since a client that is to be faster
// than its target can afford no allocation, no search and no call for each
// command. Capsules and work requests are made once, a slot each; a command
// changes its SLBA, and each batch of responses costs two posts.
//
// Owned by one thread; dies before its controller.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/histogram.h"
#include "tests/conformance/raw_controller.h"
#include "tests/conformance/raw_queue.h"

namespace sluice::bench {

struct NvmfQueueOptions {
  uint16_t qid = 1;
  uint32_t depth = 32;
  uint32_t bytes = 4096;  // of a command, in whole blocks
  bool sequential = false;
  bool sleeping = false;  // waits for events; else Poll() alone
  int poll_batch = 32;    // completions of a Poll(), 1 to 32
  uint32_t nsid = 1;
  uint32_t block_bytes = 512;
  uint64_t block_count = 0;
};

class NvmfQueue {
 public:
  static absl::StatusOr<std::unique_ptr<NvmfQueue>> Open(
      conformance::RawController* controller, const NvmfQueueOptions& options);
  ~NvmfQueue();
  NvmfQueue(const NvmfQueue&) = delete;
  NvmfQueue& operator=(const NvmfQueue&) = delete;

  // Takes up to one batch of completions; with `go_on`, sends a command in each
  // free slot. Returns how many responses came; negative: broken, see error().
  int Poll(bool go_on);
  // The same of a queue that is `sleeping`: when nothing has come, and
  // something is to, until the next event.
  int Wait(bool go_on);

  uint32_t in_flight() const {
    return static_cast<uint32_t>(slots_.size() - free_slots_.size());
  }
  const std::string& error() const { return error_; }

  // From command to response, since ForgetLatency().
  const Histogram& latency_nanos() const { return latency_nanos_; }
  void ForgetLatency() { latency_nanos_.Clear(); }

 private:
  struct Slot {  // of one command; its number is the cid
    std::byte* capsule = nullptr;
    ibv_sge sge = {};
    ibv_send_wr wr = {};
    int64_t sent_nanos = 0;
    bool busy = false;
  };
  struct Receive {
    ibv_sge sge = {};
    ibv_recv_wr wr = {};
  };

  explicit NvmfQueue(const NvmfQueueOptions& options);
  void MakeSlots();
  void MakeReceives();

  // Asks for an event, and waits for it. False: broken.
  bool Arm();
  bool Sleep();
  int Fail(const std::string& what);
  bool Respond(const ibv_wc& wc, int64_t now_nanos);
  bool Repost(const ibv_wc* wc, int count);
  bool Send();
  uint64_t NextSlba();

  const NvmfQueueOptions options_;
  const uint64_t place_count_;  // where a command may begin
  uint32_t blocks_per_command_ = 0;
  std::unique_ptr<conformance::RawQueue> queue_;
  ibv_qp* qp_ = nullptr;
  ibv_cq* cq_ = nullptr;

  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  std::vector<Receive> receives_;
  // Of the send queue. An unsignalled SEND keeps its entry until a later,
  // signalled one completes.
  uint32_t free_entries_ = 0;
  uint32_t unsignalled_ = 0;  // since the last one that was signalled
  uint32_t unacked_events_ = 0;
  uint64_t random_;
  uint64_t next_place_ = 0;
  Histogram latency_nanos_;
  std::string error_;
};

}  // namespace sluice::bench
