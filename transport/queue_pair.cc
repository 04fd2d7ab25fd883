#include "transport/queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/async.h"
#include "core/check.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "core/units.h"
#include "nvme/limits.h"
#include "nvme/private_data.h"
#include "transport/send_op.h"
#include "transport/shard.h"

namespace sluice::transport {
namespace {

// Data memory of a queue pair that must not share its read sinks.
constexpr size_t kPrivatePoolBytes = 8 * kMiB;
// Work requests that did not come back: how many are told of, and how much of
// what followed each.
constexpr uint32_t kMissingTold = 4;
constexpr uint32_t kFollowingTold = 8;

}  // namespace

absl::StatusOr<std::unique_ptr<QueuePair>> QueuePair::Create(
    CqEngine* engine, LocalDevice* device, rdma_cm_id* id,
    const QueuePairOptions& options) {
  SLUICE_CHECK(options.depth >= 2);
  SLUICE_CHECK(options.depth <= kQueueDepthMax);
  SLUICE_CHECK(options.cq_depth_factor >= kCqDepthFactorMin);
  SLUICE_CHECK(options.cq_depth_factor <= kCqDepthFactorMax);
  std::unique_ptr<QueuePair> qp(new QueuePair(engine, device, id, options));
  absl::Status status = qp->Init();
  if (status.ok()) return qp;
  // The id stays with the caller, who rejects the connection.
  qp->state_ = State::kBroken;
  if (qp->id_->qp != nullptr) {
    device->api().destroy_qp(qp->id_);
    engine->PollToEmpty(qp->queue_);
  }
  qp->id_ = nullptr;
  qp->Destroy();
  return status;
}

QueuePair::QueuePair(CqEngine* engine, LocalDevice* device, rdma_cm_id* id,
                     const QueuePairOptions& options)
    : engine_(engine),
      device_(device),
      traits_(device->traits()),
      id_(id),
      options_(options) {
  ++device_->queue_pairs;
}

absl::Status QueuePair::Init() {
  if (!engine_->Register(this, &tag_)) {
    tag_.kind = WrKind::kNone;
    return absl::ResourceExhaustedError("queue pairs of this reactor");
  }
  tag_.kind = WrKind::kSend;  // registered
  if (options_.shared_receives && device_->has_shared_receives()) {
    SLUICE_ASSIGN_OR_RETURN(shared_, device_->AdmitShared(options_.depth));
  }
  SLUICE_ASSIGN_OR_RETURN(queue_, device_->Reserve(share()));
  SLUICE_RETURN_IF_ERROR(MakeMemory());
  SLUICE_RETURN_IF_ERROR(MakeQueuePair());
  PrepareSlots();
  return PostAllReceives();
}

absl::Status QueuePair::MakeMemory() {
  memory_ = device_->memory();
  if (traits_.private_read_sinks) {
    SLUICE_ASSIGN_OR_RETURN(private_extents_,
                            ExtentPool::Create(reactor(), kPrivatePoolBytes));
    SLUICE_ASSIGN_OR_RETURN(
        private_memory_,
        MemoryDomain::Create(device_->api(), device_->context(), traits_,
                             private_extents_.get()));
    memory_ = private_memory_.get();
  }
  SLUICE_ASSIGN_OR_RETURN(
      responses_, memory_->Take(size_t{2} * options_.depth * nvme::kCqeBytes));
  if (shared_ != nullptr) {
    receives_ = &shared_->slots();
    return absl::OkStatus();
  }
  own_receives_ = std::make_unique<ReceiveSlots>();
  receives_ = own_receives_.get();
  return own_receives_->TakeMemory(memory_, options_.depth,
                                   options_.in_capsule_bytes);
}

absl::Status QueuePair::MakeQueuePair() {
  ibv_qp_init_attr attr{};
  attr.qp_context = this;
  attr.send_cq = attr.recv_cq = queue_->cq.get();
  if (shared_ != nullptr) {
    attr.recv_cq = shared_->queue()->cq.get();
    attr.srq = shared_->srq();
  }
  attr.qp_type = IBV_QPT_RC;
  attr.sq_sig_all = 0;
  attr.cap.max_send_wr = send_depth();
  attr.cap.max_recv_wr = shared_ != nullptr ? 0 : options_.depth;
  attr.cap.max_send_sge = traits_.two_sges_up_to_bytes > 0 ? 2 : 1;
  attr.cap.max_recv_sge = shared_ != nullptr ? 0 : receives_->sge_count();
  attr.cap.max_inline_data = options_.inline_bytes;
  ibv_qp_init_attr request = attr;
  if (device_->api().create_qp(id_, memory_->pd(), &request) != 0) {
    // Some devices have no inline data.
    request = attr;
    request.cap.max_inline_data = 0;
    if (device_->api().create_qp(id_, memory_->pd(), &request) != 0) {
      return absl::ErrnoToStatus(
          errno, absl::StrCat("rdma_create_qp ", traits_.name,
                              " max_send_wr=", send_depth(),
                              " max_recv_wr=", attr.cap.max_recv_wr));
    }
  }
  if (shared_ != nullptr) {
    shared_number_ = id_->qp->qp_num;
    shared_->Add(shared_number_, this);
  }
  const uint32_t granted =
      std::min(request.cap.max_inline_data, options_.inline_bytes);
  inline_responses_ = granted >= nvme::kCqeBytes;
  if (granted > nvme::kCqeBytes) inline_data_bytes_ = granted;
  return absl::OkStatus();
}

void QueuePair::PrepareSlots() {
  const uint32_t depth = options_.depth;
  if (own_receives_ != nullptr) {
    WrTag tag = tag_;
    tag.kind = WrKind::kReceive;
    own_receives_->SetTag(tag);
  }
  contexts_ = std::vector<CommandContext>(size_t{2} * depth);
  for (size_t i = 0; i < contexts_.size(); ++i) {
    contexts_[i].qp = this;
    contexts_[i].index = static_cast<uint16_t>(i);
    free_contexts_.PushBack(&contexts_[i]);
  }
  arrivals_.resize(depth);
  send_slots_.resize(send_depth());
  free_send_slots_.reserve(send_depth());
  for (uint32_t i = send_depth(); i-- > 0;) {
    free_send_slots_.push_back(static_cast<uint16_t>(i));
  }
  sends_free_ = send_depth();
  // Room for the longest response must be left, whatever is silent.
  silent_max_ = 0;
  if (inline_responses_ && send_depth() >= kSilentSendDepthMin &&
      options_.signal_every > 1) {
    silent_max_ = std::min(options_.signal_every, send_depth() / 4);
  }
  reads_free_ = options_.read_depth;
}

absl::Status QueuePair::PostAllReceives() {
  if (shared_ != nullptr) return absl::OkStatus();
  for (uint32_t i = 0; i < options_.depth; ++i) {
    Repost(static_cast<uint16_t>(i));
  }
  Post();
  if (up()) return absl::OkStatus();
  return absl::InternalError("ibv_post_recv failed on a new queue pair");
}

void QueuePair::Accept() {
  if (!up()) return;
  const auto accept = nvme::EncodeConnectAccept(
      {.crqsize = static_cast<uint16_t>(options_.depth)});
  rdma_conn_param param{};
  param.private_data = accept.data();
  param.private_data_len = static_cast<uint8_t>(accept.size());
  // What the host's queue pair takes as its limit of inbound READs
  // [spec §1.5].
  param.initiator_depth = static_cast<uint8_t>(options_.read_depth);
  param.responder_resources = 0;
  param.flow_control = 1;
  param.rnr_retry_count = 7;
  if (device_->api().accept(id_, &param) == 0) return;
  SLUICE_LOG(kWarning) << "rdma_accept failed"
                       << KV("error", std::strerror(errno));
  Break("accept failed");
}

void QueuePair::OnCmEvent(const rdma_cm_event& event) {
  switch (event.event) {
    case RDMA_CM_EVENT_ESTABLISHED:
      if (traits_.loses_first_capsule && up() && stats_.commands == 0) {
        reactor()->ArmTimer(&nudge_timer_,
                            reactor()->now_nanos() + kNudgeDelayNanos);
      }
      return;
    case RDMA_CM_EVENT_DISCONNECTED:
      Disconnect("the host disconnected");
      return;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      Break("the device was removed");
      return;
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      Break("time wait");
      return;
    case RDMA_CM_EVENT_ADDR_CHANGE:
      Disconnect("the address changed");
      return;
    default:
      SLUICE_LOG(kInfo) << "connection failed"
                        << KV("event", static_cast<int>(event.event))
                        << KV("status", event.status);
      Break("connection failed");
      return;
  }
}

void QueuePair::Break(const char* why) {
  if (state_ != State::kUp) return;
  state_ = State::kBroken;
  reactor()->CancelTimer(&nudge_timer_);
  if (id_ != nullptr && id_->qp != nullptr) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    // Fails when the device is gone; the drain's deadline covers that.
    device_->api().modify_qp(id_->qp, &attr, IBV_QP_STATE);
  }
  DropArrivals();
  engine_->MarkDirty(this);  // what waits for the doorbell fails there
  while (Waiter* waiter = credit_waiters_.PopFront()) {
    reactor()->Schedule(waiter);
  }
  if (handler_ != nullptr) handler_->OnDown(why);
}

void QueuePair::Disconnect(const char* why) {
  if (state_ == State::kUp && id_ != nullptr) device_->api().disconnect(id_);
  Break(why);
}

namespace {

// Waits for a flag of its owner, or for time.
class DrainWait : public Waiter {
 public:
  DrainWait(Reactor* reactor, absl::Duration limit)
      : reactor_(reactor), timer_(&Fire, this), limit_(limit) {}
  ~DrainWait() { reactor_->CancelTimer(&timer_); }

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    frame = handle;
    reactor_->ArmTimer(
        &timer_, reactor_->now_nanos() + absl::ToInt64Nanoseconds(limit_));
  }
  void await_resume() const {}

 private:
  static void Fire(void* self) {
    auto* wait = static_cast<DrainWait*>(self);
    if (!wait->linked()) wait->reactor_->Schedule(wait);
  }

  Reactor* reactor_;
  Timer timer_;
  absl::Duration limit_;
};

}  // namespace

Task<bool> QueuePair::Drained(absl::Duration limit) {
  SLUICE_CHECK(state_ == State::kBroken);
  // A pause even where nothing is posted: the caller goes on outside of every
  // completion's call stack.
  DrainWait wait(reactor(), limit);
  drain_waiter_ = &wait;
  MaybeDrained();
  co_await wait;
  drain_waiter_ = nullptr;
  co_return outstanding() == silent();
}

std::string QueuePair::DescribeMissing() const {
  if (queue_ == nullptr || id_ == nullptr || id_->qp == nullptr) return "";
  return queue_->recorder.DumpMissing(id_->qp->qp_num, kMissingTold,
                                      kFollowingTold);
}

void QueuePair::MaybeDrained() {
  if (drain_waiter_ == nullptr || drain_waiter_->linked()) return;
  if (outstanding() > silent() || send_first_ != nullptr) return;
  // The frame is set once the coroutine waits; before that Schedule only
  // queues it.
  reactor()->Schedule(drain_waiter_);
}

void QueuePair::Destroy() {
  if (state_ == State::kDestroyed) return;
  SLUICE_CHECK(state_ == State::kBroken);
  if (dirty) {
    dirty = false;
    Post();  // fails what was never posted
    dirty = true;
  }
  if (id_ != nullptr) {
    // A device may drop what it had not told of a queue pair that is destroyed,
    // and shared receives would be lost with that.
    if (shared_ != nullptr) engine_->PollToEmpty(shared_->queue());
    if (id_->qp != nullptr) device_->api().destroy_qp(id_);
    // What the device still had to say about it is read before the share of
    // the completion queue goes to somebody else.
    engine_->PollToEmpty(queue_);
    if (shared_ != nullptr) engine_->PollToEmpty(shared_->queue());
    device_->api().destroy_id(id_);
    id_ = nullptr;
  }
  state_ = State::kDestroyed;
  for (SendSlot& slot : send_slots_) {
    if (slot.op == nullptr) continue;
    slot.op->failed = true;
    FinishOp(slot.op, /*resume_now=*/false);
  }
  if (queue_ != nullptr) {
    queue_->ledger.Returned(outstanding());
    queue_->sends_out -= sends_posted_ - silent();
    queue_->ledger.Release(share());
  }
  receives_posted_ = sends_posted_ = 0;
  silent_done_ = silent_vouched_ = silent_posted_;
  if (shared_number_ != 0) shared_->Remove(shared_number_);
  shared_number_ = 0;
  if (tag_.kind != WrKind::kNone) engine_->Unregister(tag_);
}

QueuePair::~QueuePair() {
  SLUICE_CHECK(state_ == State::kDestroyed);
  SLUICE_CHECK(free_send_slots_.size() == send_slots_.size());
  while (free_contexts_.PopFront() != nullptr) {
  }
  if (memory_ != nullptr) memory_->Give(responses_);
  own_receives_.reset();  // before the memory
  if (shared_ != nullptr) {
    SLUICE_CHECK(shared_out_ == 0);
    device_->LeaveShared(shared_, options_.depth);
  }
  --device_->queue_pairs;
  if (ticket_ != nullptr) Shard::Return(ticket_);
}

}  // namespace sluice::transport
