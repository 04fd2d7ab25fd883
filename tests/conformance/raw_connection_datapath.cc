// RawConnection's work requests and completions.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "tests/conformance/raw_connection.h"

namespace sluice::conformance {
namespace {

// wr_id: the slot, and which kind of slot.
constexpr uint64_t kSendFlag = uint64_t{1} << 32;
constexpr uint64_t kOtherFlag = uint64_t{1} << 33;
constexpr int kPollBatch = 32;

}  // namespace

int RawConnection::PostReceive(uint32_t index) {
  const size_t offset = size_t{index} * nvme::kCqeBytes;
  ibv_sge sge = {.addr = receive_memory_->address(offset),
                 .length = nvme::kCqeBytes,
                 .lkey = receive_memory_->lkey()};
  ibv_recv_wr wr = {};
  wr.wr_id = index;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad_wr = nullptr;
  return std::abs(ibv_post_recv(id_->qp, &wr, &bad_wr));  // siw: negative
}

absl::StatusOr<uint32_t> RawConnection::TakeSendSlot() {
  Deadline deadline;
  while (free_send_slots_.empty()) {
    PollCompletions();
    if (qp_failed_) return absl::UnavailableError("the connection ended");
    if (free_send_slots_.empty() && !deadline.Nap()) {
      return absl::DeadlineExceededError("no send has completed");
    }
  }
  const uint32_t slot = free_send_slots_.back();
  free_send_slots_.pop_back();
  return slot;
}

absl::Status RawConnection::SendCapsule(absl::Span<const std::byte> bytes) {
  SLUICE_CHECK(bytes.size() <= options_.capsule_bytes_max);
  SLUICE_ASSIGN_OR_RETURN(const uint32_t slot, TakeSendSlot());
  const size_t offset = size_t{slot} * options_.capsule_bytes_max;
  std::copy(bytes.begin(), bytes.end(),
            send_memory_->bytes(offset, bytes.size()).begin());
  ibv_sge sge = {.addr = send_memory_->address(offset),
                 .length = static_cast<uint32_t>(bytes.size()),
                 .lkey = send_memory_->lkey()};
  ibv_send_wr wr = {};
  wr.wr_id = slot | kSendFlag;
  wr.sg_list = &sge;
  wr.num_sge = bytes.empty() ? 0 : 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad_wr = nullptr;
  const int error = std::abs(ibv_post_send(id_->qp, &wr, &bad_wr));
  if (error == 0) return absl::OkStatus();
  free_send_slots_.push_back(slot);
  return absl::ErrnoToStatus(error, "ibv_post_send");
}

absl::Status RawConnection::SendCommand(const nvme::Sqe& sqe) {
  std::array<std::byte, nvme::kSqeBytes> capsule;
  nvme::WriteSqe(sqe, absl::MakeSpan(capsule));
  return SendCapsule(capsule);
}

absl::Status RawConnection::Post(ibv_send_wr wr) {
  SLUICE_ASSIGN_OR_RETURN(const uint32_t slot, TakeSendSlot());
  wr.wr_id = slot | kSendFlag | kOtherFlag;
  wr.send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* bad_wr = nullptr;
  const int error = std::abs(ibv_post_send(id_->qp, &wr, &bad_wr));
  if (error == 0) return absl::OkStatus();
  free_send_slots_.push_back(slot);
  return absl::ErrnoToStatus(error, "ibv_post_send");
}

void RawConnection::PollCompletions() {
  if (id_->qp == nullptr) return;
  std::array<ibv_wc, kPollBatch> completions;
  int count = 0;
  do {
    count = ibv_poll_cq(cq_, kPollBatch, completions.data());
    if (count < 0) qp_failed_ = true;
    for (int i = 0; i < count; ++i) {
      Completed(completions[static_cast<size_t>(i)]);
    }
  } while (count == kPollBatch);
}

void RawConnection::Completed(const ibv_wc& wc) {
  if ((wc.wr_id & kSendFlag) != 0) {
    free_send_slots_.push_back(static_cast<uint32_t>(wc.wr_id));
  }
  if (wc.status != IBV_WC_SUCCESS) {
    if (first_error_ == IBV_WC_SUCCESS) first_error_ = wc.status;
    qp_failed_ = true;
    return;
  }
  if ((wc.wr_id & kSendFlag) == 0) Received(wc);
}

void RawConnection::Received(const ibv_wc& wc) {
  const auto index = static_cast<uint32_t>(wc.wr_id);
  const auto bytes =
      receive_memory_->bytes(size_t{index} * nvme::kCqeBytes, nvme::kCqeBytes);
  RawResponse response;
  response.cqe = nvme::ReadCqe(bytes);
  response.length_bytes = wc.byte_len;
  response.with_invalidate = (wc.wc_flags & IBV_WC_WITH_INV) != 0;
  if (response.with_invalidate) response.invalidated_key = wc.invalidated_rkey;
  responses_.push_back(response);
  ++response_count_;
  (void)PostReceive(index);  // fails only when the queue pair has failed
}

absl::StatusOr<RawResponse> RawConnection::WaitResponse(uint16_t cid,
                                                        absl::Duration wait) {
  Deadline deadline(wait);
  while (true) {
    const bool has_ended = ended();
    const auto found = std::find_if(
        responses_.begin(), responses_.end(),
        [cid](const RawResponse& each) { return each.cqe.cid == cid; });
    if (found != responses_.end()) {
      const RawResponse response = *found;
      responses_.erase(found);
      if (response.length_bytes != nvme::kCqeBytes) {
        return absl::DataLossError(
            absl::StrCat("a response of ", response.length_bytes, " bytes"));
      }
      return response;
    }
    if (has_ended) return absl::UnavailableError("the connection ended");
    if (!deadline.Nap()) {
      return absl::DeadlineExceededError(absl::StrCat(
          "no response for cid ", cid, ", but ", responses_.size(), " others"));
    }
  }
}

absl::StatusOr<RawResponse> RawConnection::WaitAnyResponse(
    absl::Duration wait) {
  Deadline deadline(wait);
  while (responses_.empty()) {
    if (ended() && responses_.empty()) {
      return absl::UnavailableError("the connection ended");
    }
    if (responses_.empty() && !deadline.Nap()) {
      return absl::DeadlineExceededError("no response");
    }
  }
  const uint16_t cid = responses_.front().cqe.cid;
  return WaitResponse(cid, wait);
}

bool RawConnection::HasResponse(uint16_t cid) {
  PollCompletions();
  return std::any_of(
      responses_.begin(), responses_.end(),
      [cid](const RawResponse& each) { return each.cqe.cid == cid; });
}

absl::Status RawConnection::WaitSent(absl::Duration wait) {
  Deadline deadline(wait);
  while (free_send_slots_.size() < options_.send_count) {
    PollCompletions();
    if (free_send_slots_.size() < options_.send_count && !deadline.Nap()) {
      return absl::DeadlineExceededError("a send has not completed");
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice::conformance
