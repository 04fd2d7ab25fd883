// The data path of a queue pair: no allocation, no lock, no system call but the
// doorbell. Setup and teardown are in queue_pair.cc.
#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "core/log.h"
#include "transport/post_errno.h"
#include "transport/queue_pair.h"
#include "transport/send_op.h"
#include "transport/shard.h"
#include "transport/wc_status.h"

namespace sluice::transport {
namespace {

bool IsSilent(const ibv_send_wr& wr) {
  return WrTag::Unpack(wr.wr_id).kind == WrKind::kSilent;
}

// See DeviceTraits::two_sges_up_to_bytes.
void Widen(ibv_send_wr* wr, const DeviceTraits& traits) {
  if (wr->num_sge == 1 && wr->sg_list->length <= traits.two_sges_up_to_bytes) {
    wr->num_sge = 2;
  }
}

void MakeWrite(ibv_send_wr* wr, const nvme::KeyedDescriptor& piece,
               const DeviceTraits& traits) {
  wr->opcode = IBV_WR_RDMA_WRITE;
  wr->wr.rdma.remote_addr = piece.address;
  wr->wr.rdma.rkey = piece.key;
  Widen(wr, traits);
}

// Data that the device takes with the work request: it need not fetch it.
void InlineIfSmall(ibv_send_wr* wr, uint32_t inline_bytes) {
  if (wr->num_sge == 1 && wr->sg_list->length <= inline_bytes) {
    wr->send_flags |= IBV_SEND_INLINE;
  }
}

void MakeResponse(ibv_send_wr* wr, uint32_t invalidate_key, bool is_inline,
                  const DeviceTraits& traits) {
  wr->opcode = IBV_WR_SEND;
  if (invalidate_key != 0) {
    wr->opcode = IBV_WR_SEND_WITH_INV;
    wr->invalidate_rkey = invalidate_key;
    // siw's library reads the key of any work request from here; the others
    // look at neither field of a plain SEND's kin but their own.
    wr->wr.rdma.rkey = invalidate_key;
  }
  if (is_inline) {
    wr->send_flags |= IBV_SEND_INLINE;
  } else {
    Widen(wr, traits);
  }
}

}  // namespace

QueuePair::SendOp::SendOp(QueuePair* qp, bool reads) : is_read(reads) {
  qp->engine_->MakeRoom(kRemoteBuffersMax + 1);
  // Every operation holds a credit, and there are as many slots as credits.
  SLUICE_CHECK(!qp->free_send_slots_.empty());
  slot = qp->free_send_slots_.back();
  qp->free_send_slots_.pop_back();
  qp->send_slots_[slot].op = this;
}

// --- completions ---

void QueuePair::OnCompletion(const ibv_wc& completion, const WrTag& tag) {
  switch (tag.kind) {
    case WrKind::kReceive:
      OnReceive(completion, tag.slot);
      break;
    case WrKind::kSend:
    case WrKind::kWrite:
    case WrKind::kRead:
      OnSent(completion, tag);
      break;
    case WrKind::kSilent:
      OnSilent(completion, tag.slot);
      break;
    case WrKind::kNudge:
      OnNudged(completion);
      break;
    case WrKind::kSharedReceive:  // comes by OnSharedReceive
    case WrKind::kNone:
      ++stats_.stale;
      break;
  }
  MaybeDrained();
}

void QueuePair::OnReceive(const ibv_wc& completion, uint16_t slot) {
  if (own_receives_ == nullptr || slot >= own_receives_->count() ||
      receives_posted_ == 0) {
    ++stats_.stale;
    return;
  }
  --receives_posted_;
  queue_->ledger.Returned(1);
  if (completion.status != IBV_WC_SUCCESS) {
    CompletionFailed(completion, "receive");
    return;
  }
  Arrive(completion, slot);
}

void QueuePair::OnSharedReceive(const ibv_wc& completion, uint16_t slot) {
  ++shared_out_;
  if (completion.status != IBV_WC_SUCCESS) {
    Repost(slot);
    CompletionFailed(completion, "receive");
    return;
  }
  if (up() && shared_out_ > options_.depth) {
    // The others' receives; who has one of its own for each would not have let
    // it come.
    SLUICE_LOG(kWarning) << "more commands than the queue is deep, closing the "
                            "connection"
                         << KV("depth", options_.depth);
    Break("more commands than its depth");
  }
  Arrive(completion, slot);
}

void QueuePair::Arrive(const ibv_wc& completion, uint16_t slot) {
  if (!up()) {
    Repost(slot);
    return;
  }
  if (completion.byte_len < nvme::kSqeBytes) {
    // Fatal for the connection [spec §2.1].
    SLUICE_LOG(kWarning) << "command capsule too short, closing the connection"
                         << KV("bytes", completion.byte_len);
    Repost(slot);
    Break("capsule shorter than 64 bytes");
    return;
  }
  const uint32_t data_bytes =
      completion.byte_len - static_cast<uint32_t>(nvme::kSqeBytes);
  SLUICE_CHECK(arrivals_count_ < arrivals_.size());
  const size_t place = (arrivals_first_ + arrivals_count_++) % arrivals_.size();
  arrivals_[place] = Arrival{slot, data_bytes};
  engine_->MarkArrived(this);
}

void QueuePair::DropArrivals() {
  engine_->ForgetArrived(this);
  for (; arrivals_count_ > 0; --arrivals_count_) {
    Repost(arrivals_[arrivals_first_].slot);
    if (++arrivals_first_ == arrivals_.size()) arrivals_first_ = 0;
  }
}

bool QueuePair::ServeArrived() {
  const auto can_serve = [this] {
    if (!up() || arrivals_count_ == 0) return false;
    // The host may not have more than d commands in flight; their responses'
    // completions come soon, and Release() goes on.
    if (free_contexts_.empty()) ++stats_.context_waits;
    return !free_contexts_.empty();
  };
  if (!can_serve()) return false;
  const Arrival arrival = arrivals_[arrivals_first_];
  if (++arrivals_first_ == arrivals_.size()) arrivals_first_ = 0;
  --arrivals_count_;
  Deliver(arrival);
  return can_serve();
}

void QueuePair::Deliver(const Arrival& arrival) {
  const auto [slot, bytes] = arrival;
  CommandContext* command = free_contexts_.PopFront();
  command->sqe = nvme::ReadSqe(
      absl::MakeConstSpan(receives_->command(slot), nvme::kSqeBytes));
  command->in_capsule = bytes > 0 ? receives_->data(slot) : nullptr;
  command->in_capsule_bytes = bytes;
  command->receive_slot = slot;
  command->receive_held = true;
  ++stats_.commands;
  handler_->OnCommand(command);
}

void QueuePair::OnSent(const ibv_wc& completion, const WrTag& tag) {
  if (tag.slot >= send_slots_.size() || send_slots_[tag.slot].op == nullptr ||
      send_slots_[tag.slot].generation != tag.slot_generation) {
    ++stats_.stale;
    return;
  }
  SendOp* op = send_slots_[tag.slot].op;
  // A queue pair completes in order: the last of a chain vouches for those
  // before it that were not signalled. An earlier one speaks for itself.
  const uint32_t returned = tag.last ? op->work_requests : 1;
  SLUICE_CHECK(returned <= op->work_requests);
  if (tag.last && !op->is_read) SilentDone(op->vouches_for);
  op->work_requests = static_cast<uint16_t>(op->work_requests - returned);
  queue_->sends_out -= returned;
  SendsDone(returned, op->is_read ? returned : 0);
  if (completion.status != IBV_WC_SUCCESS) {
    op->failed = true;
    CompletionFailed(completion, op->is_read ? "RDMA READ" : "SEND or WRITE",
                     op->is_read);
  }
  if (op->work_requests == 0) FinishOp(op, /*resume_now=*/true);
}

// Only failures have a completion, and what was flushed.
void QueuePair::OnSilent(const ibv_wc& completion, uint16_t number) {
  const auto ahead = static_cast<uint16_t>(number - silent_done_);
  if (ahead >= silent()) {
    ++stats_.stale;
    return;
  }
  SilentDone(silent_done_ + ahead + 1);
  if (completion.status != IBV_WC_SUCCESS) {
    CompletionFailed(completion, "SEND or WRITE");
  }
}

void QueuePair::SilentDone(uint32_t number) {
  const uint32_t count = number - silent_done_;
  if (count > silent()) return;  // a later one has vouched for them
  silent_done_ = number;
  SendsDone(count, 0);
}

void QueuePair::SendsDone(uint32_t count, uint32_t reads) {
  SLUICE_CHECK(count <= sends_posted_);
  sends_posted_ -= count;
  queue_->ledger.Returned(count);
  ReturnCredits(count, reads);
}

// It may come before the host has sent anything. MPA wants the host to be
// first, since it must have switched over; a host that has our reply has.
void QueuePair::Nudge(void* self) {
  auto* qp = static_cast<QueuePair*>(self);
  if (qp->stats_.commands > 0 || !qp->TakeCredits(1, 1)) return;
  SLUICE_LOG(kDebug) << "no capsule yet, reading nothing to look for it";
  ++qp->stats_.nudges;
  qp->engine_->MakeRoom(1);
  WrTag tag = qp->tag_;
  tag.kind = WrKind::kNudge;
  ibv_send_wr* wr =
      &qp->Append(tag, qp->responses_.data, 0, qp->responses_.lkey)->wr;
  wr->opcode = IBV_WR_RDMA_READ;
  wr->num_sge = 1;  // siw wants one, of no bytes
  wr->send_flags = IBV_SEND_SIGNALED;
}

void QueuePair::OnNudged(const ibv_wc& completion) {
  if (sends_posted_ == 0) {
    ++stats_.stale;
    return;
  }
  --queue_->sends_out;
  SendsDone(1, 1);
  if (completion.status != IBV_WC_SUCCESS) {
    CompletionFailed(completion, "RDMA READ");
  }
}

void QueuePair::CompletionFailed(const ibv_wc& completion, const char* what,
                                 bool is_read) {
  // Flushes follow the first error, and every disconnect: counted by the CQ.
  if (completion.status == IBV_WC_WR_FLUSH_ERR) {
    Break("flushed");
    return;
  }
  if (up()) {
    SLUICE_LOG(kWarning) << what << " failed, closing the connection"
                         << KV("status", static_cast<int>(completion.status))
                         << KV("means",
                               WcStatusName(WcStatusIndex(completion.status)))
                         << KV("vendor", completion.vendor_err)
                         << KV("qp", completion.qp_num);
    SLUICE_LOG(kInfo) << "last completions:\n" << queue_->recorder.Dump(8);
  }
  NoteTrouble(completion.status, is_read);
  Break("completion with an error");
}

void QueuePair::NoteTrouble(ibv_wc_status status, bool is_read) {
  if (ticket_ == nullptr || ticket_->trouble != Trouble::kNone) return;
  if (status == IBV_WC_RNR_RETRY_EXC_ERR) {
    ++engine_->recovery()->receiver_not_ready;
    ticket_->trouble = Trouble::kReceiverNotReady;
  } else if (is_read && options_.read_depth > 1 &&
             (status == IBV_WC_REM_INV_REQ_ERR ||
              status == IBV_WC_REM_OP_ERR)) {
    // A READ that is wrong by itself is refused for its key.
    ++engine_->recovery()->read_depth;
    ticket_->trouble = Trouble::kReadDepth;
  }
}

void QueuePair::FinishOp(SendOp* op, bool resume_now) {
  SendSlot& slot = send_slots_[op->slot];
  slot.op = nullptr;
  ++slot.generation;
  free_send_slots_.push_back(op->slot);
  op->done = true;
  if (!op->frame) return;  // not awaited yet
  if (resume_now) {
    op->frame.resume();
  } else {
    reactor()->Schedule(op);
  }
}

// --- credits ---

bool QueuePair::TakeCredits(uint32_t sends, uint32_t reads) {
  if (sends_free_ < sends || reads_free_ < reads) return false;
  sends_free_ -= sends;
  reads_free_ -= reads;
  return true;
}

void QueuePair::ReturnCredits(uint32_t sends, uint32_t reads) {
  sends_free_ += sends;
  reads_free_ += reads;
  while (auto* waiter = static_cast<CreditWait*>(credit_waiters_.front())) {
    if (!TakeCredits(waiter->sends, waiter->reads)) return;
    waiter->granted = true;
    credit_waiters_.Remove(waiter);
    reactor()->Schedule(waiter);
  }
}

// --- what commands do ---

Task<bool> QueuePair::ReadRemote(absl::Span<const nvme::KeyedDescriptor> remote,
                                 Extent sink) {
  const uint32_t lkey = memory_->lkey_of(sink);
  size_t next = 0;
  uint32_t offset = 0;
  while (next < remote.size()) {
    CreditWait credit(this, 1, 1);
    const bool granted = co_await credit;
    if (!granted) co_return false;
    uint32_t round = 1;
    while (next + round < remote.size() && credit_waiters_.empty() &&
           TakeCredits(1, 1)) {
      ++round;
    }
    SendOp op(this, /*reads=*/true);
    for (uint32_t i = 0; i < round; ++i, ++next) {
      const nvme::KeyedDescriptor& piece = remote[next];
      SLUICE_CHECK(piece.length_bytes <= sink.bytes - offset);
      ibv_send_wr* wr = AppendSend(&op, WrKind::kRead, sink.data + offset,
                                   piece.length_bytes, lkey, i + 1 == round);
      wr->opcode = IBV_WR_RDMA_READ;
      wr->wr.rdma.remote_addr = piece.address;
      wr->wr.rdma.rkey = piece.key;
      offset += piece.length_bytes;
      stats_.bytes_read += piece.length_bytes;
    }
    const bool ok = co_await op;
    if (!ok) co_return false;
  }
  co_return true;
}

Task<bool> QueuePair::Respond(CommandContext* command, nvme::Cqe response,
                              absl::Span<const nvme::KeyedDescriptor> remote,
                              Extent source, uint32_t bytes,
                              uint32_t invalidate_key, bool may_be_silent) {
  // One round: all WRITEs and the SEND, chained. A queue so shallow that they
  // do not fit at once would deadlock on its own credits.
  uint32_t pieces = 0;
  for (uint32_t left = bytes; left > 0; ++pieces) {
    SLUICE_CHECK(pieces < remote.size());
    left -= std::min(left, remote[pieces].length_bytes);
  }
  const uint32_t lkey = bytes > 0 ? memory_->lkey_of(source) : 0;
  uint32_t written = 0;
  uint32_t first = 0;
  while (first + 1 < pieces && pieces - first + 1 > send_depth()) {
    const uint32_t round = std::min(pieces - first, send_depth());
    CreditWait credit(this, round, 0);
    const bool granted = co_await credit;
    if (!granted) co_return false;
    SendOp op(this, /*reads=*/false);
    for (uint32_t i = 0; i < round; ++i, ++first) {
      const uint32_t length =
          std::min(bytes - written, remote[first].length_bytes);
      ibv_send_wr* wr = AppendSend(&op, WrKind::kWrite, source.data + written,
                                   length, lkey, i + 1 == round);
      MakeWrite(wr, remote[first], traits_);
      written += length;
    }
    const bool ok = co_await op;
    if (!ok) co_return false;
  }
  CreditWait credit(this, pieces - first + 1, 0);
  const bool granted = co_await credit;
  if (!granted) co_return false;
  // A host that keeps to its depth never finds the queue without a receive
  // [spec §2.7].
  if (command->receive_held) {
    command->receive_held = false;
    Repost(command->receive_slot);
  }
  stats_.bytes_written += bytes;
  if (!can_invalidate()) invalidate_key = 0;
  const bool is_inline = inline_responses_ && (invalidate_key == 0 ||
                                               traits_.inline_with_invalidate);
  const auto rest = remote.subspan(first, pieces - first);
  if (may_be_silent && is_inline && CanBeSilent(rest)) {
    RespondSilently(response, rest, source, bytes, lkey, invalidate_key);
    co_return true;
  }
  SendOp op(this, /*reads=*/false);
  for (const nvme::KeyedDescriptor& piece : rest) {
    const uint32_t length = std::min(bytes - written, piece.length_bytes);
    ibv_send_wr* wr = AppendSend(&op, WrKind::kWrite, source.data + written,
                                 length, lkey, false);
    MakeWrite(wr, piece, traits_);
    InlineIfSmall(wr, inline_data_bytes_);
    if (length >= traits_.signal_writes_from_bytes) {
      wr->send_flags |= IBV_SEND_SIGNALED;
    }
    written += length;
  }
  std::byte* memory =
      responses_.data + size_t{command->index} * nvme::kCqeBytes;
  nvme::WriteCqe(response, absl::MakeSpan(memory, nvme::kCqeBytes));
  ibv_send_wr* wr = AppendSend(&op, WrKind::kSend, memory, nvme::kCqeBytes,
                               responses_.lkey, true);
  MakeResponse(wr, invalidate_key, is_inline, traits_);
  const bool ok = co_await op;
  co_return ok;
}

bool QueuePair::CanBeSilent(
    absl::Span<const nvme::KeyedDescriptor> pieces) const {
  if (!pieces.empty() && traits_.sends_by_reference()) return false;
  const uint32_t behind = silent_posted_ - silent_vouched_;
  return behind + pieces.size() + 1 <= silent_max_;
}

void QueuePair::RespondSilently(const nvme::Cqe& response,
                                absl::Span<const nvme::KeyedDescriptor> pieces,
                                Extent source, uint32_t bytes, uint32_t lkey,
                                uint32_t invalidate_key) {
  engine_->MakeRoom(kRemoteBuffersMax + 1);
  uint32_t written = 0;
  for (const nvme::KeyedDescriptor& piece : pieces) {
    const uint32_t length = std::min(bytes - written, piece.length_bytes);
    ibv_send_wr* wr = &AppendSilent(source.data + written, length, lkey)->wr;
    MakeWrite(wr, piece, traits_);
    InlineIfSmall(wr, inline_data_bytes_);
    written += length;
  }
  // Inline, and the device takes it when it is posted: until then it is in the
  // engine's memory, since the command's context goes at once.
  CqEngine::PendingSend* pending = AppendSilent(nullptr, nvme::kCqeBytes, 0);
  pending->sges[0].addr = reinterpret_cast<uint64_t>(pending->response.data());
  nvme::WriteCqe(response, absl::MakeSpan(pending->response));
  MakeResponse(&pending->wr, invalidate_key, /*is_inline=*/true, traits_);
}

// A WRITE of nothing, which needs neither address nor key, vouches for them.
Task<bool> QueuePair::SettleSilent() {
  CreditWait credit(this, 1, 0);
  const bool granted = co_await credit;
  if (!granted) co_return false;
  SendOp op(this, /*reads=*/false);
  MakeWrite(AppendSend(&op, WrKind::kWrite, nullptr, 0, 0, true), {}, traits_);
  const bool ok = co_await op;
  co_return ok;
}

void QueuePair::Release(CommandContext* command) {
  if (command->receive_held) {
    command->receive_held = false;
    Repost(command->receive_slot);
  }
  free_contexts_.PushBack(command);
  if (arrivals_count_ > 0 && up()) engine_->MarkArrived(this);
}

// --- posting ---

ibv_send_wr* QueuePair::AppendSend(SendOp* op, WrKind kind,
                                   const std::byte* data, uint32_t bytes,
                                   uint32_t lkey, bool last) {
  WrTag tag = tag_;
  tag.kind = kind;
  tag.last = last;
  tag.slot = op->slot;
  tag.slot_generation = send_slots_[op->slot].generation;
  ++op->work_requests;
  if (last && !op->is_read) {
    op->vouches_for = silent_vouched_ = silent_posted_;
  }
  ibv_send_wr* wr = &Append(tag, data, bytes, lkey)->wr;
  wr->send_flags = last ? IBV_SEND_SIGNALED : 0;
  return wr;
}

CqEngine::PendingSend* QueuePair::AppendSilent(const std::byte* data,
                                               uint32_t bytes, uint32_t lkey) {
  WrTag tag = tag_;
  tag.kind = WrKind::kSilent;
  tag.slot = static_cast<uint16_t>(silent_posted_++);
  return Append(tag, data, bytes, lkey);
}

CqEngine::PendingSend* QueuePair::Append(const WrTag& tag,
                                         const std::byte* data, uint32_t bytes,
                                         uint32_t lkey) {
  CqEngine::PendingSend* pending = engine_->NextSend(this);
  pending->sges = {ibv_sge{reinterpret_cast<uint64_t>(data), bytes, lkey}};
  ibv_send_wr* wr = &pending->wr;
  *wr = ibv_send_wr{};
  wr->wr_id = tag.Pack();
  wr->sg_list = pending->sges.data();
  wr->num_sge = bytes > 0 ? 1 : 0;
  *send_last_ = wr;
  send_last_ = &wr->next;
  ++send_count_;
  return pending;
}

void QueuePair::Repost(uint16_t slot) {
  if (shared_ != nullptr) {
    SLUICE_CHECK(shared_out_ > 0);
    --shared_out_;
    shared_->GiveBack(slot);
    return;
  }
  if (!up()) return;
  own_receives_->Append(slot);
  engine_->MarkDirty(this);
}

void QueuePair::Post() {
  PostReceives();
  PostSends();
  MaybeDrained();
}

void QueuePair::RecordPost(uint64_t wr_id, int opcode, uint32_t bytes) {
  queue_->recorder.Record(FlightRecord{.time_nanos = reactor()->now_nanos(),
                                       .wr_id = wr_id,
                                       .qp_number = id_->qp->qp_num,
                                       .byte_count = bytes,
                                       .opcode = static_cast<uint16_t>(opcode),
                                       .status = FlightRecord::kPosted});
}

void QueuePair::PostReceives() {
  if (own_receives_ == nullptr) return;
  uint32_t count = 0;
  ibv_recv_wr* first = own_receives_->TakeChain(&count);
  if (first == nullptr || !up()) return;
  receives_posted_ += count;
  queue_->ledger.Posted(count);
  for (const ibv_recv_wr* wr = first; wr != nullptr; wr = wr->next) {
    RecordPost(wr->wr_id, 0, 0);
  }
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(id_->qp, first, &bad);
  if (error == 0) return;
  uint32_t unposted = 0;
  for (; bad != nullptr; bad = bad->next) ++unposted;
  receives_posted_ -= unposted;
  queue_->ledger.Returned(unposted);
  SLUICE_LOG(kError) << "ibv_post_recv failed"
                     << KV("error", std::strerror(PostErrno(error)))
                     << KV("unposted", unposted);
  Break("ibv_post_recv failed");
}

void QueuePair::PostSends() {
  ibv_send_wr* first = send_first_;
  const uint32_t count = send_count_;
  send_first_ = nullptr;
  send_last_ = &send_first_;
  send_count_ = 0;
  if (first == nullptr) return;
  if (!up()) {
    FailUnposted(first);
    return;
  }
  sends_posted_ += count;
  queue_->ledger.Posted(count);
  for (const ibv_send_wr* wr = first; wr != nullptr; wr = wr->next) {
    RecordPost(wr->wr_id, wr->opcode,
               wr->num_sge > 0 ? wr->sg_list->length : 0);
    if (!IsSilent(*wr)) ++queue_->sends_out;
  }
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(id_->qp, first, &bad);
  if (error == 0) return;
  uint32_t unposted = 0;
  for (ibv_send_wr* wr = bad; wr != nullptr; wr = wr->next) {
    ++unposted;
    if (!IsSilent(*wr)) --queue_->sends_out;
  }
  sends_posted_ -= unposted;
  queue_->ledger.Returned(unposted);
  // With credits counted, ENOMEM would be our bug; others are the device's.
  SLUICE_LOG(kError) << "ibv_post_send failed"
                     << KV("error", std::strerror(PostErrno(error)))
                     << KV("unposted", unposted);
  FailUnposted(bad);
  Break("ibv_post_send failed");
}

// Work requests that never reached the device: their operations fail as if
// flushed, and go on from the reactor's ready list.
void QueuePair::FailUnposted(ibv_send_wr* first) {
  for (ibv_send_wr* wr = first; wr != nullptr; wr = wr->next) {
    const WrTag tag = WrTag::Unpack(wr->wr_id);
    if (tag.kind == WrKind::kSilent) {
      --silent_posted_;
      ReturnCredits(1, 0);
      continue;
    }
    if (tag.kind == WrKind::kNudge) {
      ReturnCredits(1, 1);
      continue;
    }
    SendOp* op = send_slots_[tag.slot].op;
    SLUICE_CHECK(op != nullptr);
    SLUICE_CHECK(op->work_requests > 0);
    op->failed = true;
    --op->work_requests;
    ReturnCredits(1, op->is_read ? 1 : 0);
    if (op->work_requests == 0) FinishOp(op, /*resume_now=*/false);
  }
}

}  // namespace sluice::transport
