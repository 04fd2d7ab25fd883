// Fabrics commands: Connect, properties, Disconnect [spec §3].
#include "core/async.h"
#include "core/log.h"
#include "target/queue.h"
#include "target/target_shard.h"

namespace sluice::target {

Task<nvme::Status> Queue::Connect(Request* request) {
  if (connected() || connecting_) {
    co_return nvme::kCommandSequenceError.WithDnr();
  }
  connecting_ = true;
  const nvme::ConnectCommand command =
      nvme::DecodeConnectCommand(request->sqe());
  nvme::ConnectOutcome outcome =
      nvme::CheckConnectCommand(command, qid_, hsqsize_);
  nvme::ConnectData data;
  if (outcome.ok()) {
    outcome =
        nvme::DecodeConnectData(request->buffer(), command.is_admin(), &data);
  }
  if (outcome.ok()) {
    if (command.is_admin()) {
      outcome = co_await ConnectAdmin(command, &data);
    } else {
      outcome = co_await ConnectIo(command, &data);
    }
  }
  connecting_ = false;
  if (outcome.ok()) {
    depth_ = command.queue_depth();
    flow_control_ = (command.cattr & nvme::kCattrDisableFlowControl) == 0;
    SLUICE_LOG(kInfo) << "queue up" << KV("qid", qid_) << KV("cntlid", cntlid_)
                      << KV("depth", depth_) << KV("nqn", data.subnqn.view())
                      << KV("hostnqn", data.hostnqn.view());
  } else {
    SLUICE_LOG(kInfo) << "connect refused" << KV("qid", qid_)
                      << KV("status", nvme::StatusName(outcome.status))
                      << KV("dw0", outcome.dw0) << KV("nqn", data.subnqn.view())
                      << KV("hostnqn", data.hostnqn.view());
  }
  request->result = outcome.dw0;
  co_return outcome.status;
}

Task<nvme::ConnectOutcome> Queue::ConnectAdmin(nvme::ConnectCommand command,
                                               const nvme::ConnectData* data) {
  TargetShared* shared = shard_->shared();
  const Subsystem* subsystem = shared->Find(data->subnqn);
  if (subsystem == nullptr) {
    co_return nvme::InvalidConnectData(nvme::kConnectDataSubnqnOffset);
  }
  if (!subsystem->HostAllowed(data->hostnqn)) {
    nvme::ConnectOutcome refused;
    refused.status = nvme::kConnectInvalidHost.WithDnr();
    co_return refused;
  }
  Registry* registry = shared->registry;
  TargetShard* home = shard_;
  const auto add = [registry, home, subsystem] {
    return registry->Add(home, subsystem);
  };
  CallOn call(shared->control, add);
  const uint16_t cntlid = co_await call;
  if (cntlid == 0) {
    nvme::ConnectOutcome busy;
    busy.status = nvme::kConnectControllerBusy;
    co_return busy;
  }
  ControllerInfo info;
  info.cntlid = cntlid;
  info.subsystem = subsystem;
  info.hostnqn = data->hostnqn;
  info.hostid = data->hostid;
  info.local = local_;
  info.limits.queue_depth_max = shared->options.queue_depth;
  info.limits.in_capsule_bytes = shared->options.in_capsule_bytes;
  cntlid_ = cntlid;
  controller_ =
      std::make_unique<Controller>(shard_, this, info, command.kato_ms);
  shard_->AddController(controller_.get());
  subsystem_ = subsystem;
  co_return nvme::ConnectAccepted(cntlid, /*authentication=*/false);
}

Task<nvme::ConnectOutcome> Queue::ConnectIo(nvme::ConnectCommand command,
                                            const nvme::ConnectData* data) {
  TargetShared* shared = shard_->shared();
  const Subsystem* subsystem = shared->Find(data->subnqn);
  if (subsystem == nullptr) {
    co_return nvme::InvalidConnectData(nvme::kConnectDataSubnqnOffset);
  }
  if (subsystem->discovery()) {
    co_return nvme::InvalidConnectSqe(nvme::kConnectQidOffset);
  }
  Registry* registry = shared->registry;
  const uint16_t cntlid = data->cntlid;
  const auto find = [registry, cntlid] { return registry->Find(cntlid); };
  CallOn find_call(shared->control, find);
  TargetShard* home = co_await find_call;
  if (home == nullptr) {
    co_return nvme::InvalidConnectData(nvme::kConnectDataCntlidOffset);
  }
  IoQueueEntry entry;
  entry.qid = qid_;
  entry.shard = shard_;
  entry.serial = serial_;
  // By id: the controller may have gone since.
  const auto attach = [home, cntlid, &command, data, &entry] {
    Controller* controller = home->FindController(cntlid);
    if (controller == nullptr) {
      return nvme::InvalidConnectData(nvme::kConnectDataCntlidOffset);
    }
    return controller->Attach(command, *data, entry);
  };
  CallOn attach_call(home->reactor(), attach);
  const nvme::ConnectOutcome outcome = co_await attach_call;
  if (!outcome.ok()) co_return outcome;
  cntlid_ = cntlid;
  controller_home_ = home;
  devices_ = shard_->DevicesOf(subsystem);
  subsystem_ = subsystem;
  co_return outcome;
}

nvme::Status Queue::ExecuteFabrics(Request* request) {
  const nvme::Sqe& sqe = request->sqe();
  nvme::PropertyCommand command;
  nvme::Status status;
  switch (static_cast<nvme::FabricsType>(sqe.fctype())) {
    case nvme::FabricsType::kPropertyGet:
      if (controller_ == nullptr) break;
      status = nvme::DecodePropertyGet(sqe, &command);
      if (!status.ok()) return status;
      return controller_->GetProperty(command, &request->result);
    case nvme::FabricsType::kPropertySet:
      if (controller_ == nullptr) break;
      status = nvme::DecodePropertySet(sqe, &command);
      if (!status.ok()) return status;
      return controller_->SetProperty(command);
    case nvme::FabricsType::kDisconnect:
      if (controller_ != nullptr) return nvme::kInvalidQueueType.WithDnr();
      status = nvme::DecodeDisconnect(sqe);
      request->close_after = status.ok();
      return status;
    case nvme::FabricsType::kConnect:
    case nvme::FabricsType::kAuthenticationSend:
    case nvme::FabricsType::kAuthenticationReceive:
      break;
  }
  return nvme::kInvalidField.WithDnr();
}

}  // namespace sluice::target
