#include "transport/shared_receives.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "transport/cq_engine.h"
#include "transport/local_device.h"
#include "transport/post_errno.h"
#include "transport/queue_pair.h"

namespace sluice::transport {

absl::StatusOr<std::unique_ptr<SharedReceives>> SharedReceives::Create(
    CqEngine* engine, LocalDevice* device, uint32_t count,
    uint32_t in_capsule_bytes) {
  std::unique_ptr<SharedReceives> shared(
      new SharedReceives(engine, device, count));
  SLUICE_RETURN_IF_ERROR(shared->Init(in_capsule_bytes));
  return shared;
}

SharedReceives::SharedReceives(CqEngine* engine, LocalDevice* device,
                               uint32_t count)
    : engine_(engine), device_(device) {
  stats_.count = count;
}

absl::Status SharedReceives::Init(uint32_t in_capsule_bytes) {
  const uint32_t total = stats_.count + kSharedReceivesSpare;
  SLUICE_ASSIGN_OR_RETURN(queue_, device_->Reserve(total));
  SLUICE_RETURN_IF_ERROR(
      slots_.TakeMemory(device_->memory(), total, in_capsule_bytes));
  ibv_srq_init_attr attr{};
  attr.attr.max_wr = total;
  attr.attr.max_sge = slots_.sge_count();
  srq_ = VerbsPtr<ibv_srq>(
      device_->api().create_srq(device_->memory()->pd(), &attr),
      VerbsDeleter{&device_->api()});
  if (srq_ == nullptr) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("ibv_create_srq ", device_->traits().name,
                            " max_wr=", total));
  }
  engine_->Register(this, &tag_);
  registered_ = true;
  tag_.kind = WrKind::kSharedReceive;
  slots_.SetTag(tag_);
  is_posted_.resize(total);
  for (uint32_t i = 0; i < total; ++i) {
    slots_.Append(static_cast<uint16_t>(i));
  }
  Post();
  if (!failed_) return absl::OkStatus();
  return absl::InternalError("ibv_post_srq_recv failed on a new queue");
}

SharedReceives::~SharedReceives() {
  SLUICE_CHECK(unused());
  SLUICE_CHECK(by_number_.empty());
  if (queue_ == nullptr) return;
  failed_ = true;  // posts nothing any more
  srq_.reset();
  // What the device still had to say of them, before their entries go to
  // somebody else.
  engine_->PollToEmpty(queue_);
  if (registered_) engine_->Unregister(this, tag_);
  queue_->ledger.Returned(stats_.posted);
  queue_->ledger.Release(stats_.count + kSharedReceivesSpare);
}

bool SharedReceives::Admit(uint32_t depth) {
  if (depth > stats_.count - stats_.admitted) return false;
  stats_.admitted += depth;
  return true;
}

void SharedReceives::Leave(uint32_t depth) {
  SLUICE_CHECK(depth <= stats_.admitted);
  stats_.admitted -= depth;
}

void SharedReceives::Add(uint32_t qp_number, QueuePair* qp) {
  const bool added = by_number_.emplace(qp_number, qp).second;
  SLUICE_CHECK(added);
}

void SharedReceives::Remove(uint32_t qp_number) { by_number_.erase(qp_number); }

bool SharedReceives::OnCompletion(const ibv_wc& completion, uint16_t slot) {
  if (slot >= is_posted_.size() || !is_posted_[slot]) return false;
  is_posted_[slot] = false;
  --stats_.posted;
  queue_->ledger.Returned(1);
  const auto found = by_number_.find(completion.qp_num);
  if (found == by_number_.end()) {
    ++stats_.orphans;
    GiveBack(slot);
    return true;
  }
  found->second->OnSharedReceive(completion, slot);
  return true;
}

void SharedReceives::GiveBack(uint16_t slot) {
  SLUICE_DCHECK(!is_posted_[slot]);
  slots_.Append(slot);
  engine_->MarkDirty(this);
}

void SharedReceives::Post() {
  uint32_t count = 0;
  ibv_recv_wr* first = slots_.TakeChain(&count);
  if (first == nullptr || failed_) return;
  for (const ibv_recv_wr* wr = first; wr != nullptr; wr = wr->next) {
    is_posted_[WrTag::Unpack(wr->wr_id).slot] = true;
    queue_->recorder.Record(
        FlightRecord{.time_nanos = engine_->reactor()->now_nanos(),
                     .wr_id = wr->wr_id,
                     .status = FlightRecord::kPosted});
  }
  stats_.posted += count;
  queue_->ledger.Posted(count);
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_srq_recv(srq_.get(), first, &bad);
  if (error == 0) return;
  uint32_t unposted = 0;
  for (; bad != nullptr; bad = bad->next) {
    is_posted_[WrTag::Unpack(bad->wr_id).slot] = false;
    ++unposted;
  }
  stats_.posted -= unposted;
  queue_->ledger.Returned(unposted);
  failed_ = true;
  SLUICE_LOG(kError) << "ibv_post_srq_recv failed, its connections are closed"
                     << KV("error", std::strerror(PostErrno(error)))
                     << KV("unposted", unposted);
  engine_->BreakAll([this](const QueuePair& qp) { return qp.shared() == this; },
                    "ibv_post_srq_recv failed");
}

}  // namespace sluice::transport
