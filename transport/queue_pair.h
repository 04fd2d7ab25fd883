// One connection: an RC queue pair with its receives, command contexts and send
// credits. Everything posted is counted; nothing is posted without a credit,
// and a credit comes back when the completion is polled. Commands that find no
// credit wait in order.
//
// Commands are served in the order in which they arrive, and the queue pairs of
// a reactor in turns, one command each: who keeps its queue full delays others
// by one command of its own, not by a queue of them.
//
// Responses behind which nothing has to be given back are silent: they have no
// completion of their own. The next one that has vouches for them, since a
// queue pair completes in order; until then their credits are held.
//
// Owned by the target's queue, lives on one reactor. Bound: depth d receives,
// 2d command contexts, (cq_depth_factor - 1) x d sends, WRITEs and READs.
//
// Life: Create (INIT, receives posted) - accept - up - Break (error state, by
// the peer, a fault or Disconnect) - Drained (all work requests accounted for,
// or the deadline) - Destroy (verbs objects gone, share returned) - destructor
// (when no command uses its memory any more).
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/reactor.h"
#include "core/task.h"
#include "nvme/sgl.h"
#include "nvme/sqe.h"
#include "transport/cm_channel.h"
#include "transport/cq_engine.h"
#include "transport/local_device.h"
#include "transport/receive_slots.h"
#include "transport/shared_receives.h"

namespace sluice::transport {

struct QueuePairOptions {
  uint32_t depth = 128;              // commands in flight: receives posted
  uint32_t cq_depth_factor = 4;      // 2 to 4
  uint32_t in_capsule_bytes = 4096;  // data a command capsule may carry
  uint32_t read_depth = 1;           // RDMA READs in flight, as negotiated
  // SENDs, WRITEs and READs in flight at most, where the peer is known to take
  // fewer than the factor allows: 2 at least, 0 for no such limit.
  uint32_t send_limit = 0;
  // Data that the device is asked to take inline, 0 to 1024: a response is of
  // 16 bytes; READs of blocks up to this size go the same way.
  uint32_t inline_bytes = 16;
  // Of responses that leave nothing to give back one in so many has a
  // completion, 1 to 64.
  uint32_t signal_every = 16;
  // Receives come out of the device's shared ones (LocalDeviceOptions), where
  // it has any.
  bool shared_receives = false;
};

class QueuePair;
struct Ticket;

// A command on its way: from its receive until its response has been sent.
struct CommandContext : ListNode {
  QueuePair* qp = nullptr;
  nvme::Sqe sqe;                    // a copy: the receive may be reposted
  std::byte* in_capsule = nullptr;  // data behind the SQE, until the repost
  uint32_t in_capsule_bytes = 0;    // received
  uint16_t index = 0;
  uint16_t receive_slot = 0;
  bool receive_held = false;  // not reposted yet
};

// What the target's queue hears. Called on the reactor, from its poll.
class CapsuleHandler {
 public:
  virtual ~CapsuleHandler() = default;
  // The context is the handler's until Release().
  virtual void OnCommand(CommandContext* command) = 0;
  // The connection is down for good, said once. Close it.
  virtual void OnDown(const char* why) = 0;
};

// Counters of one queue pair.
struct QueuePairStats {
  uint64_t commands = 0;
  uint64_t credit_waits = 0;   // rounds that found no send credit
  uint64_t context_waits = 0;  // turns that found no command context
  uint64_t bytes_read = 0;     // by RDMA READ, from the host
  uint64_t bytes_written = 0;  // by RDMA WRITE, to the host
  uint64_t nudges = 0;         // for a first capsule that was late
  uint64_t stale = 0;
};

class QueuePair final : public CmSink, public ListNode {
 public:
  // Makes the queue pair on `id` (which stays the caller's on error) and posts
  // its receives. ResourceExhausted: no CQ share, no memory, no queue pair.
  static absl::StatusOr<std::unique_ptr<QueuePair>> Create(
      CqEngine* engine, LocalDevice* device, rdma_cm_id* id,
      const QueuePairOptions& options);
  ~QueuePair() override;
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  void set_handler(CapsuleHandler* handler) { handler_ = handler; }
  CapsuleHandler* handler() const { return handler_; }

  // --- the data path: queue_pair_datapath.cc ---

  // Pulls the host's buffers one after the other into `sink`, by RDMA READ.
  // Suspends. False: the connection is down, the data is not there.
  // `remote` stays valid until it ends.
  Task<bool> ReadRemote(absl::Span<const nvme::KeyedDescriptor> remote,
                        Extent sink);
  // Writes `bytes` of `source` to the host's buffers in order, if there are
  // any, and sends the response behind them; reposts the command's receive
  // before that. Suspends until the device is done with all of it; with
  // `may_be_silent`, when `source` outlives the queue pair, perhaps only until
  // it is handed over. False: the connection went down first.
  Task<bool> Respond(CommandContext* command, nvme::Cqe response,
                     absl::Span<const nvme::KeyedDescriptor> remote,
                     Extent source, uint32_t bytes, uint32_t invalidate_key,
                     bool may_be_silent);
  // Suspends until what was silent up to now has been sent. False: the
  // connection went down first.
  Task<bool> SettleSilent();
  // Gives the context back; its receive is reposted if it still is held.
  void Release(CommandContext* command);

  // Whether a response may carry SEND_WITH_INV.
  bool can_invalidate() const { return traits_.send_with_invalidate; }
  ExtentPool* extents() const { return memory_->extents(); }
  // True when Respond can send these bytes from where they are.
  bool CanSendFrom(const std::byte* data, uint32_t bytes) const {
    return memory_->Holds(data, bytes);
  }

  // --- life: queue_pair.cc ---

  bool up() const { return state_ == State::kUp; }
  // Accepts the connection; a failure breaks it. A command may arrive before
  // the ESTABLISHED event and is served like any other [spec §1.6].
  void Accept();
  void OnCmEvent(const rdma_cm_event& event) override;
  // Goes back to the connection manager with the queue pair's end.
  void set_ticket(Ticket* ticket) { ticket_ = ticket; }
  // Takes the connection down; everything posted will be flushed. Repeats do
  // nothing. `why` is a literal.
  void Break(const char* why);
  // Ends the connection in order: the peer hears of it.
  void Disconnect(const char* why);
  // Waits until every work request is accounted for, at most `limit`. True
  // when they are.
  Task<bool> Drained(absl::Duration limit);
  // Destroys the queue pair and the id, returns the CQ share. Operations that
  // the device never gave back fail now. From no completion's call stack.
  void Destroy();

  rdma_cm_id* id() const { return id_; }
  CompletionQueue* queue() const { return queue_; }  // of its sends
  const SharedReceives* shared() const { return shared_; }
  LocalDevice* device() const { return device_; }
  Reactor* reactor() const { return engine_->reactor(); }
  const QueuePairOptions& options() const { return options_; }
  const QueuePairStats& stats() const { return stats_; }
  // What the flight recorder knows of work requests that did not come back: a
  // few of them, for people.
  std::string DescribeMissing() const;
  uint32_t outstanding() const { return receives_posted_ + sends_posted_; }
  // Work requests of it that may never complete, and use no memory that goes.
  uint32_t silent() const { return silent_posted_ - silent_done_; }

  // --- the CQ engine's ---
  void OnCompletion(const ibv_wc& completion, const WrTag& tag);
  void OnSharedReceive(const ibv_wc& completion, uint16_t slot);
  // Hands one command that has arrived to the handler. True when another one
  // could be.
  bool ServeArrived();
  void Post();
  bool dirty = false;

 private:
  enum class State : uint8_t { kUp, kBroken, kDestroyed };
  class CreditWait;
  class SendOp;
  friend class CreditWait;
  friend class SendOp;

  struct SendSlot {
    SendOp* op = nullptr;
    uint8_t generation = 0;
  };
  // A receive whose command waits for its turn, or for a context.
  struct Arrival {
    uint16_t slot;
    uint32_t bytes;
  };

  QueuePair(CqEngine* engine, LocalDevice* device, rdma_cm_id* id,
            const QueuePairOptions& options);
  absl::Status Init();
  absl::Status MakeMemory();
  absl::Status MakeQueuePair();
  absl::Status PostAllReceives();
  void PrepareSlots();
  uint32_t send_depth() const {
    const uint32_t depth = (options_.cq_depth_factor - 1) * options_.depth;
    return options_.send_limit == 0 ? depth
                                    : std::min(depth, options_.send_limit);
  }
  uint32_t share() const {
    const uint32_t receives = shared_ != nullptr ? 0 : options_.depth;
    return receives + send_depth() - device_->options().reserve_less;
  }

  // The data path.
  void OnReceive(const ibv_wc& completion, uint16_t slot);
  void Arrive(const ibv_wc& completion, uint16_t slot);
  void DropArrivals();
  void OnSent(const ibv_wc& completion, const WrTag& tag);
  void OnSilent(const ibv_wc& completion, uint16_t number);
  void OnNudged(const ibv_wc& completion);
  void Deliver(const Arrival& arrival);
  // Its receive may take another command.
  void Repost(uint16_t slot);
  bool TakeCredits(uint32_t sends, uint32_t reads);
  void ReturnCredits(uint32_t sends, uint32_t reads);
  bool CanBeSilent(absl::Span<const nvme::KeyedDescriptor> pieces) const;
  void RespondSilently(const nvme::Cqe& response,
                       absl::Span<const nvme::KeyedDescriptor> pieces,
                       Extent source, uint32_t bytes, uint32_t lkey,
                       uint32_t invalidate_key);
  // So many work requests, `reads` of them READs, are accounted for.
  void SendsDone(uint32_t count, uint32_t reads);
  // Those before that number are done.
  void SilentDone(uint32_t number);
  ibv_send_wr* AppendSend(SendOp* op, WrKind kind, const std::byte* data,
                          uint32_t bytes, uint32_t lkey, bool last);
  CqEngine::PendingSend* AppendSilent(const std::byte* data, uint32_t bytes,
                                      uint32_t lkey);
  CqEngine::PendingSend* Append(const WrTag& tag, const std::byte* data,
                                uint32_t bytes, uint32_t lkey);
  void FinishOp(SendOp* op, bool resume_now);
  void FailUnposted(ibv_send_wr* first);
  void PostReceives();
  void RecordPost(uint64_t wr_id, int opcode, uint32_t bytes);
  void PostSends();
  // Reads nothing from the host: with the answer, a device that has lost sight
  // of the first capsule finds both.
  static void Nudge(void* self);
  void CompletionFailed(const ibv_wc& completion, const char* what,
                        bool is_read = false);
  // Trouble that the peer's next connection can be spared, told to the ticket.
  void NoteTrouble(ibv_wc_status status, bool is_read);
  void MaybeDrained();

  CqEngine* const engine_;
  LocalDevice* const device_;
  const DeviceTraits& traits_;
  rdma_cm_id* id_;
  const QueuePairOptions options_;
  CapsuleHandler* handler_ = nullptr;
  State state_ = State::kUp;
  Ticket* ticket_ = nullptr;
  WrTag tag_;  // qp_index and qp_generation of all its tags
  CompletionQueue* queue_ = nullptr;

  // Memory, where a device wants it private to this queue pair.
  std::unique_ptr<ExtentPool> private_extents_;
  std::unique_ptr<MemoryDomain> private_memory_;
  MemoryDomain* memory_ = nullptr;
  RegisteredBlock responses_;  // 2d x 16
  bool inline_responses_ = false;
  uint32_t inline_data_bytes_ = 0;  // of WRITEs; 0: none

  std::unique_ptr<ReceiveSlots> own_receives_;  // unless they are shared
  SharedReceives* shared_ = nullptr;
  const ReceiveSlots* receives_ = nullptr;
  uint32_t shared_number_ = 0;  // by which shared_ knows it; 0: not yet
  uint32_t shared_out_ = 0;     // receives that it has of shared_
  std::vector<CommandContext> contexts_;
  IntrusiveList<CommandContext> free_contexts_;
  std::vector<Arrival> arrivals_;  // a ring of d
  uint32_t arrivals_first_ = 0;
  uint32_t arrivals_count_ = 0;

  std::vector<SendSlot> send_slots_;
  std::vector<uint16_t> free_send_slots_;
  uint32_t sends_free_ = 0;
  uint32_t reads_free_ = 0;
  IntrusiveList<Waiter> credit_waiters_;
  ibv_send_wr* send_first_ = nullptr;
  ibv_send_wr** send_last_ = &send_first_;
  uint32_t send_count_ = 0;

  uint32_t receives_posted_ = 0;  // not yet polled back
  uint32_t sends_posted_ = 0;
  // Silent work requests, numbered; at most silent_max_ are behind the last one
  // that will be vouched for.
  uint32_t silent_max_ = 0;
  uint32_t silent_posted_ = 0;
  uint32_t silent_vouched_ = 0;
  uint32_t silent_done_ = 0;
  Waiter* drain_waiter_ = nullptr;
  Timer nudge_timer_{&Nudge, this};
  QueuePairStats stats_;
};

}  // namespace sluice::transport
