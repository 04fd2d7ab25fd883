#include "transport/cq_engine.h"

#include <algorithm>

#include "core/check.h"
#include "core/clock.h"
#include "core/log.h"
#include "transport/local_device.h"
#include "transport/queue_pair.h"
#include "transport/shared_receives.h"

namespace sluice::transport {
namespace {

// An event that follows its completion by less than this is only late: whoever
// is to announce it may have lost its processor in between, a virtual one too.
constexpr int64_t kEventLateNanos = 50 * kNanosPerMilli;

}  // namespace

CqEngine::CqEngine(Reactor* reactor, const CqEngineOptions& options)
    : reactor_(reactor), options_(options) {
  SLUICE_CHECK(options_.poll_batch > 0);
  SLUICE_CHECK(options_.poll_batch <= kPollBatchMax);
  pending_.resize(kPostBufferSize);
  dirty_.reserve(kQueuePairsMax);
  reactor_->AddPollSource(this);
}

CqEngine::~CqEngine() {
  SLUICE_CHECK(devices_.empty());
  reactor_->RemovePollSource(this);
}

void CqEngine::AddDevice(LocalDevice* device) { devices_.push_back(device); }

void CqEngine::RemoveDevice(LocalDevice* device) {
  devices_.erase(std::find(devices_.begin(), devices_.end(), device));
}

int CqEngine::Poll() {
  int polled = 0;
  for (LocalDevice* device : devices_) {
    for (const auto& queue : device->queues()) {
      // All that has come, before anything of it is served: else the queue
      // pair that has most in the CQ has most of the tick.
      for (int round = 0; round < kPollRounds; ++round) {
        const int count = PollQueue(queue.get());
        polled += count;
        if (count < static_cast<int>(options_.poll_batch)) break;
      }
    }
  }
  timed_out_ = false;
  return std::max(polled, ServeArrived());
}

// When each has had its first turn, and some have no more to serve while others
// have, the doorbells ring early: responses of the first do not wait for the
// work that the others bring.
int CqEngine::ServeArrived() {
  int served = 0;
  bool some_are_done = false;
  const QueuePair* second_turn = nullptr;  // who has it first
  while (served < static_cast<int>(options_.poll_batch)) {
    QueuePair* qp = arrived_.PopFront();
    if (qp == nullptr) break;
    if (qp == second_turn && some_are_done) {
      Flush();
      some_are_done = false;
    }
    ++served;
    if (!qp->ServeArrived()) {
      some_are_done = true;
      continue;
    }
    MarkArrived(qp);
    if (second_turn == nullptr) second_turn = qp;
  }
  return served;
}

int CqEngine::PollQueue(CompletionQueue* queue) {
  if (queue->dead && queue->ledger.reserved() == 0) return 0;
  ibv_wc completions[kPollBatchMax];
  const int count = ibv_poll_cq(
      queue->cq.get(), static_cast<int>(options_.poll_batch), completions);
  if (count <= 0) {
    ++queue->stats.empty_polls;
    if (queue->suspects > 0) CheckSuspect(queue);
    if (count < 0 && !queue->dead) MarkDead(queue, "ibv_poll_cq failed");
    return 0;
  }
  ++queue->stats.batches;
  ++queue->stats.batch_sizes[CqStats::BatchIndex(count)];
  queue->stats.completions += static_cast<uint64_t>(count);
  if (timed_out_ && queue->armed && !queue->armed_solicited) {
    // Since the first: those that follow, as unannounced, prove no event late.
    if (queue->suspects == 0) {
      queue->suspect_since_nanos = reactor_->now_nanos();
    }
    queue->suspects += static_cast<uint32_t>(count);
  }
  for (int i = 0; i < count; ++i) Dispatch(queue, completions[i]);
  return count;
}

void CqEngine::Dispatch(CompletionQueue* queue, const ibv_wc& completion) {
  queue->recorder.Record(
      FlightRecord{.time_nanos = reactor_->now_nanos(),
                   .wr_id = completion.wr_id,
                   .qp_number = completion.qp_num,
                   .byte_count = completion.byte_len,
                   .opcode = static_cast<uint16_t>(completion.opcode),
                   .status = static_cast<uint16_t>(completion.status),
                   .vendor_error = completion.vendor_err});
  const WrTag tag = WrTag::Unpack(completion.wr_id);
  ++queue->stats.by_kind[static_cast<size_t>(tag.kind)];
  ++queue->stats.by_status[WcStatusIndex(completion.status)];
  if (completion.status == IBV_WC_WR_FLUSH_ERR) {
    ++queue->stats.flushes;
  } else if (completion.status != IBV_WC_SUCCESS) {
    ++queue->stats.errors;
  }
  if (tag.kind == WrKind::kSharedReceive) {
    if (DispatchShared(completion, tag)) return;
    ++queue->stats.stale;
    ++stale_;
    return;
  }
  if (tag.qp_index >= table_.size() || table_[tag.qp_index].qp == nullptr ||
      table_[tag.qp_index].generation != tag.qp_generation) {
    ++queue->stats.stale;
    ++stale_;
    return;
  }
  table_[tag.qp_index].qp->OnCompletion(completion, tag);
}

bool CqEngine::DispatchShared(const ibv_wc& completion, const WrTag& tag) {
  if (tag.qp_index >= shared_table_.size()) return false;
  const SharedSlot& slot = shared_table_[tag.qp_index];
  if (slot.shared == nullptr || slot.generation != tag.qp_generation) {
    return false;
  }
  return slot.shared->OnCompletion(completion, tag.slot);
}

bool CqEngine::Arm() {
  bool armed = false;
  for (LocalDevice* device : devices_) {
    for (const auto& queue : device->queues()) {
      if (queue->dead) continue;
      armed = true;
      const bool solicited = options_.solicited_only && queue->sends_out == 0;
      // Asked for more than before: asked anew.
      if (queue->armed && (solicited || !queue->armed_solicited)) continue;
      queue->armed_solicited = solicited;
      // Even where this fails, the safety poll goes on.
      if (ibv_req_notify_cq(queue->cq.get(), solicited ? 1 : 0) == 0) {
        queue->armed = true;
      }
      ++queue->stats.arms;
    }
  }
  return armed;
}

void CqEngine::OnEvent(CompletionQueue* queue) {
  queue->armed = false;
  queue->suspects = 0;
  ++queue->stats.events;
  if (++queue->events_unacked >= options_.ack_batch) Acknowledge(queue);
}

void CqEngine::Acknowledge(CompletionQueue* queue) {
  if (queue->events_unacked == 0) return;
  queue->device->api().ack_cq_events(queue->cq.get(), queue->events_unacked);
  queue->stats.acknowledged += queue->events_unacked;
  queue->events_unacked = 0;
}

void CqEngine::OnTimeout() { timed_out_ = true; }

void CqEngine::CheckSuspect(CompletionQueue* queue) {
  if (reactor_->now_nanos() - queue->suspect_since_nanos < kEventLateNanos) {
    return;
  }
  // It may be in the channel, which is read by who sleeps.
  queue->device->TakeEvents();
  if (queue->suspects == 0) return;
  // The event never came: the notification was lost. Arm again.
  queue->stats.rescued += queue->suspects;
  SLUICE_LOG(kWarning) << "completions without a notification were found by "
                          "the safety poll"
                       << KV("device", queue->device->traits().name)
                       << KV("count", queue->suspects);
  queue->suspects = 0;
  queue->armed = false;
}

void CqEngine::MarkDead(CompletionQueue* queue, const char* why) {
  if (queue->dead) return;
  queue->dead = true;
  ++recovery_.cqs_lost;
  SLUICE_LOG(kError) << "completion queue lost, its connections are closed"
                     << KV("why", why)
                     << KV("device", queue->device->traits().name)
                     << KV("capacity", queue->ledger.capacity())
                     << KV("reserved", queue->ledger.reserved())
                     << KV("outstanding", queue->ledger.outstanding());
  SLUICE_LOG(kError) << "last completions:\n" << queue->recorder.Dump(16);
  BreakAll(
      [queue](const QueuePair& qp) {
        return qp.queue() == queue ||
               (qp.shared() != nullptr && qp.shared()->queue() == queue);
      },
      why);
}

void CqEngine::BreakAll(absl::FunctionRef<bool(const QueuePair&)> which,
                        const char* why) {
  for (const Slot& slot : table_) {
    if (slot.qp != nullptr && which(*slot.qp)) slot.qp->Break(why);
  }
}

void CqEngine::PollToEmpty(CompletionQueue* queue) {
  while (PollQueue(queue) > 0) {
  }
}

bool CqEngine::Register(QueuePair* qp, WrTag* tag) {
  uint16_t index;
  if (!free_slots_.empty()) {
    index = free_slots_.back();
    free_slots_.pop_back();
  } else if (table_.size() < kQueuePairsMax) {
    index = static_cast<uint16_t>(table_.size());
    table_.emplace_back();
  } else {
    return false;
  }
  table_[index].qp = qp;
  tag->qp_index = index;
  tag->qp_generation = table_[index].generation;
  return true;
}

void CqEngine::Unregister(const WrTag& tag) {
  Slot& slot = table_[tag.qp_index];
  SLUICE_CHECK(slot.generation == tag.qp_generation);
  const auto found = std::find(dirty_.begin(), dirty_.end(), slot.qp);
  if (found != dirty_.end()) dirty_.erase(found);
  slot.qp = nullptr;
  ++slot.generation;
  free_slots_.push_back(tag.qp_index);
}

void CqEngine::Register(SharedReceives* shared, WrTag* tag) {
  size_t index = 0;
  while (index < shared_table_.size() &&
         shared_table_[index].shared != nullptr) {
    ++index;
  }
  if (index == shared_table_.size()) shared_table_.emplace_back();
  shared_table_[index].shared = shared;
  tag->qp_index = static_cast<uint16_t>(index);
  tag->qp_generation = shared_table_[index].generation;
}

void CqEngine::Unregister(const SharedReceives* shared, const WrTag& tag) {
  std::erase(dirty_shared_, shared);
  SharedSlot& slot = shared_table_[tag.qp_index];
  SLUICE_CHECK(slot.shared == shared);
  slot.shared = nullptr;
  ++slot.generation;
}

void CqEngine::MakeRoom(uint32_t count) {
  SLUICE_DCHECK(count <= kPostBufferSize);
  if (kPostBufferSize - pending_used_ < count) Flush();
}

CqEngine::PendingSend* CqEngine::NextSend(QueuePair* qp) {
  SLUICE_CHECK(pending_used_ < kPostBufferSize);
  MarkDirty(qp);
  return &pending_[pending_used_++];
}

void CqEngine::MarkDirty(QueuePair* qp) {
  if (qp->dirty) return;
  qp->dirty = true;
  dirty_.push_back(qp);
}

void CqEngine::MarkDirty(SharedReceives* shared) {
  if (shared->dirty) return;
  shared->dirty = true;
  dirty_shared_.push_back(shared);
}

void CqEngine::MarkArrived(QueuePair* qp) {
  if (!qp->linked()) arrived_.PushBack(qp);
}

void CqEngine::ForgetArrived(QueuePair* qp) {
  if (qp->linked()) arrived_.Remove(qp);
}

void CqEngine::Flush() {
  // Receives first, as of each queue pair: the response that follows lets the
  // host send its next command.
  for (size_t i = 0; i < dirty_shared_.size(); ++i) {
    SharedReceives* shared = dirty_shared_[i];
    shared->dirty = false;
    shared->Post();
  }
  dirty_shared_.clear();
  // By index: a post that fails breaks its queue pair, which marks it again.
  for (size_t i = 0; i < dirty_.size(); ++i) {
    QueuePair* qp = dirty_[i];
    qp->dirty = false;
    qp->Post();
  }
  dirty_.clear();
  pending_used_ = 0;
}

void CqStats::Add(const CqStats& other) {
  completions += other.completions;
  errors += other.errors;
  flushes += other.flushes;
  empty_polls += other.empty_polls;
  batches += other.batches;
  arms += other.arms;
  events += other.events;
  acknowledged += other.acknowledged;
  rescued += other.rescued;
  stale += other.stale;
  const auto add = [](auto* to, const auto& from) {
    for (size_t i = 0; i < from.size(); ++i) (*to)[i] += from[i];
  };
  add(&by_kind, other.by_kind);
  add(&by_status, other.by_status);
  add(&batch_sizes, other.batch_sizes);
}

CqStats CqEngine::TotalStats() const {
  CqStats total;
  for (const LocalDevice* device : devices_) {
    for (const auto& queue : device->queues()) {
      total.Add(queue->stats);
    }
  }
  return total;
}

}  // namespace sluice::transport
