// One shared receive queue: the receives of several queue pairs of a reactor
// and device. It covers the depths of those that it serves, so that none of
// them, however full, takes what another may need; a peer that sends more
// commands than its depth is cut off. Its receives complete on one CQ, where
// all of them are reserved for as long as it lives.
//
// Owned by its LocalDevice, on its reactor. Bound: `count` receives, and
// kSharedReceivesSpare that are on their way back. Ends with the last queue
// pair it serves: what a queue pair had taken of it when it ended may be lost
// to it, and the next one begins whole.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "transport/completion_queue.h"
#include "transport/receive_slots.h"

namespace sluice::transport {

class CqEngine;
class QueuePair;

struct SharedReceivesStats {
  uint32_t count = 0;     // for depths
  uint32_t admitted = 0;  // depths of the queue pairs served
  uint32_t posted = 0;    // and not polled back
  uint64_t orphans = 0;   // of queue pairs that were gone: posted again
};

class SharedReceives {
 public:
  // Posts all of them. Errors: no CQ share, no memory, ibv_create_srq's,
  // ibv_post_srq_recv's.
  static absl::StatusOr<std::unique_ptr<SharedReceives>> Create(
      CqEngine* engine, LocalDevice* device, uint32_t count,
      uint32_t in_capsule_bytes);
  ~SharedReceives();
  SharedReceives(const SharedReceives&) = delete;
  SharedReceives& operator=(const SharedReceives&) = delete;

  // Serves no new queue pairs: its CQ is lost, or it could not post.
  bool dead() const { return failed_ || queue_->dead; }
  // Takes `depth` of the count; false when not so many are left.
  bool Admit(uint32_t depth);
  // A queue pair that was admitted has that number now.
  void Add(uint32_t qp_number, QueuePair* qp);
  void Remove(uint32_t qp_number);
  void Leave(uint32_t depth);
  bool unused() const { return stats_.admitted == 0; }

  ibv_srq* srq() const { return srq_.get(); }
  CompletionQueue* queue() const { return queue_; }
  const ReceiveSlots& slots() const { return slots_; }
  const SharedReceivesStats& stats() const { return stats_; }

  // False for one that is not posted.
  bool OnCompletion(const ibv_wc& completion, uint16_t slot);
  // Posted again at the end of the tick.
  void GiveBack(uint16_t slot);
  // The CQ engine's.
  void Post();
  bool dirty = false;

 private:
  SharedReceives(CqEngine* engine, LocalDevice* device, uint32_t count);
  absl::Status Init(uint32_t in_capsule_bytes);

  CqEngine* const engine_;
  LocalDevice* const device_;
  CompletionQueue* queue_ = nullptr;  // its entries are reserved
  bool registered_ = false;
  WrTag tag_;
  ReceiveSlots slots_;
  VerbsPtr<ibv_srq> srq_;
  std::vector<bool> is_posted_;
  absl::flat_hash_map<uint32_t, QueuePair*> by_number_;
  bool failed_ = false;
  SharedReceivesStats stats_;
};

}  // namespace sluice::transport
