#include "target/queue.h"

#include <cstring>

#include "core/async.h"
#include "core/check.h"
#include "core/log.h"
#include "nvme/io_command.h"
#include "target/admin.h"
#include "target/target_shard.h"
#include "transport/listen_address.h"

namespace sluice::target {
namespace {

// How long a device may take to give back what was posted on a dead queue.
constexpr absl::Duration kFlushLimit = absl::Seconds(2);

// Cuts the host's buffers to what the command moves: a host may offer more.
void Trim(nvme::DataPointer* data, uint32_t bytes) {
  if (data->kind != nvme::DataKind::kKeyed) return;
  uint32_t left = bytes;
  for (uint32_t i = 0; i < data->keyed_count; ++i) {
    nvme::KeyedDescriptor& piece = data->keyed[i];
    if (piece.length_bytes > left) piece.length_bytes = left;
    left -= piece.length_bytes;
    if (left == 0) {
      data->keyed_count = i + 1;
      return;
    }
  }
}

}  // namespace

Queue::Queue(TargetShard* shard, uint64_t serial,
             std::unique_ptr<transport::QueuePair> qp,
             const transport::Ticket& ticket)
    : shard_(shard),
      serial_(serial),
      qp_(std::move(qp)),
      qid_(ticket.request.qid),
      hsqsize_(ticket.request.hsqsize),
      local_(ticket.local),
      peer_(ticket.peer) {
  qp_->set_handler(this);
}

Queue::~Queue() = default;

void Queue::OnCommand(transport::CommandContext* command) {
  if (quiescing_) {
    qp_->Release(command);
    return;
  }
  scope_.Spawn(Serve(command));
}

// Responses that nobody waits for are waited for here.
void Queue::Quiesce() {
  quiescing_ = true;
  if (qp_->silent() > 0) scope_.Spawn(SettleSilent());
}

Task<void> Queue::SettleSilent() { co_await qp_->SettleSilent(); }

size_t Queue::busy() const {
  const size_t parked =
      controller_ == nullptr ? 0 : controller_->parked_events();
  return scope_.size() - parked;
}

// --- one command, capsule to reply ---

// The queue owns the command context, which outlives this frame. A good read
// chains its RDMA WRITE before the reply's SEND.
Task<void> Queue::Serve(transport::CommandContext* command) {
  Request request(command);
  nvme::Status status = Decode(&request);
  if (status.ok() && request.bytes > 0) status = co_await TakeData(&request);
  if (status.ok()) status = co_await Execute(&request);
  co_await Reply(&request, status);
}

nvme::Status Queue::Decode(Request* request) {
  const nvme::Sqe& sqe = request->sqe();
  nvme::Status status = nvme::CheckFlags(sqe, /*fused_served=*/false);
  if (!status.ok()) return status;
  status = nvme::DecodeDataPointer(
      sqe,
      absl::MakeConstSpan(request->command->in_capsule,
                          request->command->in_capsule_bytes),
      UINT32_MAX, &request->data);
  if (!status.ok()) return status;
  if (!connected() &&
      !(sqe.is_fabrics() && static_cast<nvme::FabricsType>(sqe.fctype()) ==
                                nvme::FabricsType::kConnect)) {
    return nvme::kCommandSequenceError.WithDnr();
  }
  request->direction = sqe.direction();
  request->bytes = DataBytes(*request, &status);
  if (!status.ok()) return status;
  if (request->data.total_bytes() < request->bytes) {
    return nvme::kDataSglLengthInvalid.WithDnr();
  }
  if (request->bytes > kTransferBytesMax) return nvme::kInvalidField.WithDnr();
  Trim(&request->data, request->bytes);
  return nvme::kSuccess;
}

uint32_t Queue::DataBytes(const Request& request, nvme::Status* status) const {
  const nvme::Sqe& sqe = request.sqe();
  if (sqe.is_fabrics()) {
    const bool connect = static_cast<nvme::FabricsType>(sqe.fctype()) ==
                         nvme::FabricsType::kConnect;
    return connect ? nvme::kConnectDataBytes : 0;
  }
  return qid_ == 0 ? AdminDataBytes(sqe, status) : IoDataBytes(request, status);
}

// Gets the buffer, all of it at once, and what the host has to send.
Task<nvme::Status> Queue::TakeData(Request* request) {
  const bool in_capsule = request->data.kind == nvme::DataKind::kInCapsule;
  const bool compare =
      qid_ != 0 && static_cast<nvme::IoOpcode>(request->sqe().opcode) ==
                       nvme::IoOpcode::kCompare;
  if (in_capsule && !compare) co_return nvme::kSuccess;
  if (UsesMemory(request)) co_return nvme::kSuccess;
  // Compare reads the namespace's blocks behind the host's.
  const uint32_t bytes = compare ? 2 * request->bytes : request->bytes;
  transport::ExtentPool* pool = qp_->extents();
  if (qid_ == 0) {
    request->extent = co_await pool->TakeUrgent(bytes);
    std::memset(request->extent.data, 0, bytes);
  } else {
    request->extent = co_await pool->Take(bytes);
  }
  if (request->direction != nvme::Direction::kHostToController &&
      !request->sqe().is_fabrics()) {
    co_return nvme::kSuccess;
  }
  if (in_capsule) {
    std::memcpy(request->extent.data,
                request->command->in_capsule + request->data.offset_bytes,
                request->bytes);
    co_return nvme::kSuccess;
  }
  const bool pulled =
      co_await qp_->ReadRemote(request->data.descriptors(), request->extent);
  // Without the connection nobody hears the answer.
  co_return pulled ? nvme::kSuccess : nvme::kTransientTransportError;
}

// A read of a namespace in memory that the device may send from needs no
// buffer.
bool Queue::UsesMemory(Request* request) const {
  const nvme::Sqe& sqe = request->sqe();
  if (qid_ == 0 || sqe.is_fabrics() ||
      static_cast<nvme::IoOpcode>(sqe.opcode) != nvme::IoOpcode::kRead) {
    return false;
  }
  const blockdev::BlockDevice& device = *(*devices_)[sqe.nsid - 1];
  if (device.memory() == nullptr) return false;
  std::byte* const data = device.memory() + nvme::DecodeBlock(sqe).slba *
                                                device.geometry().block_bytes;
  if (!qp_->CanSendFrom(data, request->bytes)) return false;
  request->extent.data = data;
  request->extent.bytes = request->bytes;
  request->in_place = true;
  return true;
}

Task<nvme::Status> Queue::Execute(Request* request) {
  nvme::Status status;
  if (request->sqe().is_fabrics()) {
    ++shard_->probe()->fabrics_commands;
    const bool connect =
        static_cast<nvme::FabricsType>(request->sqe().fctype()) ==
        nvme::FabricsType::kConnect;
    if (!connect) co_return ExecuteFabrics(request);
    status = co_await Connect(request);
    co_return status;
  }
  if (qid_ != 0) {
    status = co_await ExecuteIo(request);
    co_return status;
  }
  ++shard_->probe()->admin_commands;
  status = co_await ExecuteAdmin(controller_.get(), request);
  co_return status;
}

Task<void> Queue::Reply(Request* request, nvme::Status status) {
  NoteError(*request, &status);
  sqhd_ = static_cast<uint16_t>((sqhd_ + 1u) % depth_);
  nvme::Cqe response;
  response.result = request->result;
  response.sqhd = flow_control_ ? sqhd_ : 0xFFFF;
  response.sqid = qid_;
  response.cid = request->sqe().cid;
  response.status_wire = status.wire();
  const bool writes =
      status.ok() && request->direction == nvme::Direction::kControllerToHost;
  const uint32_t invalidate_key =
      request->data.invalidate ? request->data.invalidate_key : 0;
  const bool holds_extent = !request->extent.empty() && !request->in_place;
  // Nobody waits for a response that leaves nothing to give back, unless the
  // queue is to end behind it.
  const bool may_be_silent = qid_ != 0 && !(holds_extent && writes) &&
                             !quiescing_ && !request->close_after;
  if (holds_extent && !writes) qp_->extents()->Give(request->extent);
  co_await qp_->Respond(request->command, response, request->data.descriptors(),
                        request->extent, writes ? request->bytes : 0,
                        invalidate_key, may_be_silent);
  if (holds_extent && writes) qp_->extents()->Give(request->extent);
  qp_->Release(request->command);
  if (request->close_after) qp_->Disconnect("the host asked for it");
}

// Failed commands of an admin queue go into its error log and say so [spec
// §6.6]; a failed Connect does not.
void Queue::NoteError(const Request& request, nvme::Status* status) {
  if (status->ok()) return;
  ++shard_->probe()->failed_commands;
  if (controller_ == nullptr || request.sqe().is_fabrics()) return;
  nvme::ErrorEntry entry;
  entry.sqid = qid_;
  entry.cid = request.sqe().cid;
  entry.status = *status;
  entry.nsid = request.sqe().nsid;
  controller_->LogError(entry);
  *status = status->WithMore();
}

// --- the end ---

void Queue::OnDown(const char* why) {
  SLUICE_CHECK(!down_);
  down_ = true;
  quiescing_ = true;
  SLUICE_LOG(kInfo) << "queue down" << KV("qid", qid_)
                    << KV("cntlid", controller_ != nullptr
                                        ? controller_->info().cntlid
                                        : cntlid_)
                    << KV("peer", transport::AddressText(peer_))
                    << KV("why", why) << KV("commands", qp_->stats().commands)
                    << KV("in_flight", scope_.size());
  if (controller_ != nullptr) controller_->BeginTeardown(why);
  shard_->OnQueueDown(this);
}

Task<void> Queue::Close() {
  const bool drained = co_await qp_->Drained(kFlushLimit);
  if (!drained) {
    SLUICE_LOG(kWarning) << "the device did not flush a dead queue"
                         << KV("qid", qid_)
                         << KV("outstanding", qp_->outstanding());
    SLUICE_LOG(kWarning) << "work requests of it:\n" << qp_->DescribeMissing();
  }
  qp_->Destroy();
  co_await scope_.Close();
  if (controller_ != nullptr) co_await controller_->Teardown();
  if (controller_home_ != nullptr) {
    TargetShard* home = controller_home_;
    const uint16_t cntlid = cntlid_;
    const uint16_t qid = qid_;
    const uint64_t serial = serial_;
    const auto detach = [home, cntlid, qid, serial] {
      Controller* controller = home->FindController(cntlid);
      SLUICE_CHECK(controller != nullptr);  // it waits for its queues
      controller->Detach(qid, serial);
    };
    CallOn call(home->reactor(), detach);
    co_await call;
  }
}

}  // namespace sluice::target
