// Properties of a controller: CAP, VS, CC, CSTS [spec §3.3].
#include "core/log.h"
#include "target/controller.h"
#include "target/target_shard.h"

namespace sluice::target {

nvme::Capabilities Controller::capabilities() const {
  nvme::Capabilities capabilities;
  capabilities.queue_depth_max = info_.limits.queue_depth_max;
  return capabilities;
}

nvme::Status Controller::GetProperty(const nvme::PropertyCommand& command,
                                     uint64_t* value) const {
  if (nvme::PropertyBytes(command.offset_bytes) != command.length_bytes) {
    return nvme::kInvalidField.WithDnr();
  }
  switch (static_cast<nvme::Property>(command.offset_bytes)) {
    case nvme::Property::kCap:
      *value = nvme::EncodeCap(capabilities());
      return nvme::kSuccess;
    case nvme::Property::kVs:
      *value = nvme::kVersion14;
      return nvme::kSuccess;
    case nvme::Property::kCc:
      *value = cc_;
      return nvme::kSuccess;
    case nvme::Property::kCsts:
      *value = nvme::EncodeCsts(status_);
      return nvme::kSuccess;
    case nvme::Property::kNssr:  // CAP.NSSRS is 0
    case nvme::Property::kCrto:  // CAP bits 59 and 60 are 0
      break;
  }
  return nvme::kInvalidField.WithDnr();
}

nvme::Status Controller::SetProperty(const nvme::PropertyCommand& command) {
  if (static_cast<nvme::Property>(command.offset_bytes) !=
          nvme::Property::kCc ||
      command.length_bytes != 4) {
    return nvme::kInvalidField.WithDnr();
  }
  cc_ = static_cast<uint32_t>(command.value);
  const nvme::ControllerConfiguration before = configuration_;
  configuration_ = nvme::DecodeCc(cc_);
  if (!before.enabled && configuration_.enabled) {
    if (nvme::CanEnable(configuration_, capabilities(), discovery())) {
      status_ = nvme::ControllerStatus{};
      status_.ready = true;
    } else {
      SLUICE_LOG(kWarning) << "controller configuration refused"
                           << KV("cntlid", info_.cntlid) << KV("cc", cc_);
      status_.fatal = true;
    }
  }
  if (before.enabled && !configuration_.enabled) Reset();
  if (before.shn == nvme::ShutdownNotification::kNone &&
      configuration_.shn != nvme::ShutdownNotification::kNone) {
    Shutdown();
  }
  return nvme::kSuccess;
}

// The admin queue, CNTLID, KATO and host identifier stay.
void Controller::Reset() {
  AbortEvents();
  DropIoQueues("controller reset");
  features_ = Features{};
  granted_io_queues_ = 0;
  changed_namespaces_.clear();
  status_ = nvme::ControllerStatus{};
  cc_ = 0;
  configuration_ = nvme::ControllerConfiguration{};
}

// The host has disconnected its I/O queues already, as Linux does, or loses
// them now: nothing is in flight that was not answered.
void Controller::Shutdown() {
  DropIoQueues("controller shutdown");
  shard_->reactor()->CancelTimer(&keep_alive_timer_);
  status_.ready = false;
  status_.shst = nvme::ShutdownStatus::kComplete;
}

}  // namespace sluice::target
