// The completion engine of one reactor: polls every CQ of every device in
// batches, hands completions to their queue pairs and has these serve their
// commands in turns, arms notification in the one right order, acknowledges
// events in batches, and rings the doorbells at the end of a tick.
//
// Home: its reactor. Bound: what the ledgers have given out.
#pragma once

#include <array>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/intrusive_list.h"
#include "core/reactor.h"
#include "nvme/sqe.h"
#include "transport/completion_queue.h"
#include "transport/limits.h"
#include "transport/wr_tag.h"

namespace sluice::transport {

class LocalDevice;
class QueuePair;
class SharedReceives;

struct CqEngineOptions {
  // Completions taken from a CQ at a time, and commands served in a tick, 16 to
  // 64: more per look, and longer until the rest of the tick has its turn.
  uint32_t poll_batch = 32;
  // CQ events acknowledged at once: acknowledging takes a lock, and a CQ cannot
  // go before all of its events are.
  uint32_t ack_batch = 64;
  // Only what the peer marked as solicited wakes a sleeper, errors too, unless
  // work requests of ours are out. Saves wake-ups with hosts that mark the last
  // of several commands; one that marks none (Linux) waits for the safety poll.
  bool solicited_only = false;
};

// What was lost and made anew, beside the CQs' own counters.
struct RecoveryStats {
  uint64_t channel_failures = 0;
  uint64_t cqs_lost = 0;
  // Queue pairs whose peer had no receive, or refused a READ beside others.
  uint64_t receiver_not_ready = 0;
  uint64_t read_depth = 0;
};

class CqEngine final : public PollSource {
 public:
  explicit CqEngine(Reactor* reactor, const CqEngineOptions& options = {});
  ~CqEngine() override;
  CqEngine(const CqEngine&) = delete;
  CqEngine& operator=(const CqEngine&) = delete;

  Reactor* reactor() const { return reactor_; }

  // PollSource.
  int Poll() override;
  bool Arm() override;
  void Flush() override;
  void OnTimeout() override;

  void AddDevice(LocalDevice* device);
  void RemoveDevice(LocalDevice* device);

  // A place in the table for a queue pair: the qp_index and qp_generation of
  // its tags. False when all kQueuePairsMax are taken.
  bool Register(QueuePair* qp, WrTag* tag);
  // Completions that still come for it are stale from now on.
  void Unregister(const WrTag& tag);
  // The same for shared receives.
  void Register(SharedReceives* shared, WrTag* tag);
  void Unregister(const SharedReceives* shared, const WrTag& tag);

  // The channel said that `queue` has completions.
  void OnEvent(CompletionQueue* queue);
  // Acknowledges all events taken: before a CQ is destroyed.
  void Acknowledge(CompletionQueue* queue);
  // The CQ is lost: its queue pairs go down.
  void MarkDead(CompletionQueue* queue, const char* why);
  // Breaks the queue pairs that `which(qp)` picks.
  void BreakAll(absl::FunctionRef<bool(const QueuePair&)> which,
                const char* why);
  // Polls the CQ until it is empty.
  void PollToEmpty(CompletionQueue* queue);

  // A work request to post at the end of the tick, behind the queue pair's
  // others. The engine's memory; filled in by the caller at once.
  struct PendingSend {
    ibv_send_wr wr;
    std::array<ibv_sge, 2> sges;                      // the second is empty
    std::array<std::byte, nvme::kCqeBytes> response;  // for inline data
  };
  PendingSend* NextSend(QueuePair* qp);
  // Posts what waits unless `count` more fit: before a chain is begun, which
  // must not be posted, and perhaps refused, while it is being built.
  void MakeRoom(uint32_t count);
  // The queue pair has something to post.
  void MarkDirty(QueuePair* qp);
  void MarkDirty(SharedReceives* shared);
  // It has a command to serve, when its turn comes; no longer.
  void MarkArrived(QueuePair* qp);
  void ForgetArrived(QueuePair* qp);

  uint64_t stale() const { return stale_; }
  RecoveryStats* recovery() { return &recovery_; }
  // Sums over all CQs of this reactor.
  CqStats TotalStats() const;
  const std::vector<LocalDevice*>& devices() const { return devices_; }

 private:
  struct Slot {
    QueuePair* qp = nullptr;
    uint16_t generation = 0;
  };
  struct SharedSlot {
    SharedReceives* shared = nullptr;
    uint16_t generation = 0;
  };

  int PollQueue(CompletionQueue* queue);
  int ServeArrived();
  void Dispatch(CompletionQueue* queue, const ibv_wc& completion);
  bool DispatchShared(const ibv_wc& completion, const WrTag& tag);
  void CheckSuspect(CompletionQueue* queue);

  Reactor* const reactor_;
  const CqEngineOptions options_;
  std::vector<LocalDevice*> devices_;
  std::vector<Slot> table_;
  std::vector<uint16_t> free_slots_;
  std::vector<SharedSlot> shared_table_;
  std::vector<SharedReceives*> dirty_shared_;
  std::vector<PendingSend> pending_;
  uint32_t pending_used_ = 0;
  std::vector<QueuePair*> dirty_;
  IntrusiveList<QueuePair> arrived_;  // their turns
  bool timed_out_ = false;  // the next poll follows a sleep nobody ended
  uint64_t stale_ = 0;
  RecoveryStats recovery_;
};

}  // namespace sluice::transport
