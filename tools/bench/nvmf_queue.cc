#include "tools/bench/nvmf_queue.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/status_macros.h"
#include "nvme/io_command.h"
#include "nvme/sqe.h"
#include "tools/bench/bench_run.h"

namespace sluice::bench {
namespace {

using conformance::RawQueueOptions;

constexpr int kPollBatchMax = 32;
constexpr uint32_t kSignalEvery = 16;
// wr_id of a signalled SEND: that, and how many entries it gives back.
constexpr uint64_t kSendFlag = uint64_t{1} << 32;
// Entries beyond the depth, so that the send queue never limits.
constexpr uint32_t kExtraSends = 2 * kSignalEvery + 2;
constexpr size_t kSlbaOffset = offsetof(nvme::Sqe, cdw10);

}  // namespace

NvmfQueue::NvmfQueue(const NvmfQueueOptions& options)
    : options_(options),
      place_count_(options.block_count * options.block_bytes / options.bytes),
      blocks_per_command_(options.bytes / options.block_bytes),
      random_(0x9E3779B97F4A7C15 + options.qid) {}

absl::StatusOr<std::unique_ptr<NvmfQueue>> NvmfQueue::Open(
    conformance::RawController* controller, const NvmfQueueOptions& options) {
  if (options.bytes == 0 || options.bytes % options.block_bytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.bytes, " bytes are not blocks of ", options.block_bytes));
  }
  std::unique_ptr<NvmfQueue> queue(new NvmfQueue(options));
  if (queue->place_count_ == 0) {
    return absl::InvalidArgumentError("the namespace is too small");
  }
  RawQueueOptions raw = RawQueueOptions::Io(
      options.qid, std::max(options.depth, 2u), controller->cntlid());
  raw.data_bytes = size_t{options.depth} * (options.bytes + nvme::kSqeBytes);
  raw.data_bytes = std::max(raw.data_bytes, size_t{nvme::kConnectDataBytes});
  raw.extra_sends = kExtraSends;
  raw.has_channel = options.sleeping;
  SLUICE_ASSIGN_OR_RETURN(queue->queue_, controller->OpenQueue(raw));
  queue->MakeSlots();
  queue->MakeReceives();
  return queue;
}

NvmfQueue::~NvmfQueue() {
  if (queue_ == nullptr) return;
  if (unacked_events_ > 0) {
    queue_->connection().api().ack_cq_events(cq_, unacked_events_);
  }
  queue_->connection().Disconnect();
}

void NvmfQueue::MakeSlots() {
  qp_ = queue_->connection().qp();
  cq_ = qp_->send_cq;
  conformance::RawMemory& memory = queue_->data();
  slots_.resize(options_.depth);
  for (uint32_t i = 0; i < options_.depth; ++i) {
    Slot& slot = slots_[i];
    nvme::Sqe sqe = queue_->BlockSqe(nvme::IoOpcode::kRead, options_.nsid, 0,
                                     blocks_per_command_, options_.block_bytes,
                                     size_t{i} * options_.bytes);
    sqe.cid = static_cast<uint16_t>(i);
    const size_t offset =
        size_t{options_.depth} * options_.bytes + size_t{i} * nvme::kSqeBytes;
    const auto capsule = memory.bytes(offset, nvme::kSqeBytes);
    nvme::WriteSqe(sqe, capsule);
    slot.capsule = capsule.data();
    slot.sge = {memory.address(offset), nvme::kSqeBytes, memory.lkey()};
    slot.wr.sg_list = &slot.sge;
    slot.wr.num_sge = 1;
    slot.wr.opcode = IBV_WR_SEND;
    free_slots_.push_back(options_.depth - 1 - i);
  }
  // The Connect command's SEND has completed: its response has come.
  free_entries_ = options_.depth + kExtraSends - 1;
}

void NvmfQueue::MakeReceives() {
  conformance::RawMemory& memory = queue_->connection().receive_memory();
  receives_.resize(memory.size() / nvme::kCqeBytes);
  for (size_t i = 0; i < receives_.size(); ++i) {
    Receive& receive = receives_[i];
    receive.sge = {memory.address(i * nvme::kCqeBytes), nvme::kCqeBytes,
                   memory.lkey()};
    receive.wr.wr_id = i;
    receive.wr.sg_list = &receive.sge;
    receive.wr.num_sge = 1;
  }
}

int NvmfQueue::Poll(bool go_on) {
  std::array<ibv_wc, kPollBatchMax> wc;
  const int count = ibv_poll_cq(cq_, options_.poll_batch, wc.data());
  if (count < 0) return Fail("ibv_poll_cq failed");
  int responses = 0;
  if (count > 0) {
    const int64_t now = NowNanos();
    for (int i = 0; i < count; ++i) {
      const ibv_wc& each = wc[static_cast<size_t>(i)];
      if (each.status != IBV_WC_SUCCESS) {
        return Fail(absl::StrCat("a completion of status ", each.status));
      }
      if ((each.wr_id & kSendFlag) != 0) {
        free_entries_ += static_cast<uint32_t>(each.wr_id);
      } else if (each.opcode == IBV_WC_RECV) {
        if (!Respond(each, now)) return -1;
        ++responses;
      }
    }
    // A receive for each response is there before the next command is.
    if (!Repost(wc.data(), count)) return Fail("ibv_post_recv failed");
  }
  if (go_on && !free_slots_.empty() && !Send()) {
    return Fail("ibv_post_send failed");
  }
  return responses;
}

bool NvmfQueue::Respond(const ibv_wc& wc, int64_t now_nanos) {
  nvme::Cqe cqe;
  std::memcpy(&cqe,
              queue_->connection().receive_memory().bytes().data() +
                  wc.wr_id * nvme::kCqeBytes,
              sizeof(cqe));
  if (wc.byte_len != sizeof(cqe) || cqe.cid >= slots_.size() ||
      !slots_[cqe.cid].busy) {
    Fail(
        absl::StrCat("a response of ", wc.byte_len, " bytes to cid ", cqe.cid));
    return false;
  }
  if (!cqe.status().ok()) {
    Fail(absl::StrCat("status 0x", absl::Hex(cqe.status().code())));
    return false;
  }
  Slot& slot = slots_[cqe.cid];
  slot.busy = false;
  latency_nanos_.Record(static_cast<uint64_t>(now_nanos - slot.sent_nanos));
  free_slots_.push_back(cqe.cid);
  return true;
}

bool NvmfQueue::Repost(const ibv_wc* wc, int count) {
  ibv_recv_wr* first = nullptr;
  ibv_recv_wr* last = nullptr;
  for (int i = 0; i < count; ++i) {
    if ((wc[i].wr_id & kSendFlag) != 0 || wc[i].opcode != IBV_WC_RECV) continue;
    ibv_recv_wr* wr = &receives_[wc[i].wr_id].wr;
    wr->next = nullptr;
    (last != nullptr ? last->next : first) = wr;
    last = wr;
  }
  ibv_recv_wr* bad = nullptr;
  return first == nullptr || ibv_post_recv(qp_, first, &bad) == 0;
}

bool NvmfQueue::Send() {
  ibv_send_wr* first = nullptr;
  ibv_send_wr* last = nullptr;
  const int64_t now = NowNanos();
  while (!free_slots_.empty() && free_entries_ > 0) {
    Slot& slot = slots_[free_slots_.back()];
    free_slots_.pop_back();
    --free_entries_;
    slot.busy = true;
    slot.sent_nanos = now;
    const uint64_t slba = NextSlba();
    std::memcpy(slot.capsule + kSlbaOffset, &slba, sizeof(slba));
    const bool signalled = ++unsignalled_ == kSignalEvery;
    slot.wr.wr_id = kSendFlag | unsignalled_;
    slot.wr.send_flags =
        signalled ? static_cast<unsigned>(IBV_SEND_SIGNALED) : 0u;
    if (signalled) unsignalled_ = 0;
    slot.wr.next = nullptr;
    (last != nullptr ? last->next : first) = &slot.wr;
    last = &slot.wr;
  }
  ibv_send_wr* bad = nullptr;
  return first == nullptr || ibv_post_send(qp_, first, &bad) == 0;
}

uint64_t NvmfQueue::NextSlba() {
  if (options_.sequential) {
    if (next_place_ == place_count_) next_place_ = 0;
    return next_place_++ * blocks_per_command_;
  }
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return random_ % place_count_ * blocks_per_command_;
}

int NvmfQueue::Wait(bool go_on) {
  int count = Poll(go_on);
  if (count != 0 || in_flight() == 0) return count;
  if (!Arm()) return -1;
  count = Poll(go_on);
  if (count == 0 && !Sleep()) return -1;
  return count;
}

bool NvmfQueue::Arm() {
  if (ibv_req_notify_cq(cq_, 0) == 0) return true;
  Fail("ibv_req_notify_cq failed");
  return false;
}

bool NvmfQueue::Sleep() {
  const VerbsApi& api = queue_->connection().api();
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (api.get_cq_event(cq_->channel, &cq, &context) != 0) {
    Fail(absl::StrCat("ibv_get_cq_event: ", std::strerror(errno)));
    return false;
  }
  ++unacked_events_;
  return true;
}

int NvmfQueue::Fail(const std::string& what) {
  if (error_.empty()) error_ = absl::StrCat("queue ", options_.qid, ": ", what);
  return -1;
}

}  // namespace sluice::bench
