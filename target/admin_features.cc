// Get and Set Features [spec §6.7]. Nothing is saved over a restart, and SEL is
// ignored: ONCS says so.
#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "core/clock.h"
#include "nvme/admin_command.h"
#include "nvme/aen.h"
#include "nvme/limits.h"
#include "nvme/wire.h"
#include "target/admin_handlers.h"
#include "target/target_shard.h"

namespace sluice::target {
namespace {

using nvme::FeatureId;
using nvme::SetFeaturesCommand;

constexpr uint32_t kTimestampBytes = 8;
constexpr uint64_t kTimestampMask = (uint64_t{1} << 48) - 1;  // ms since 1970
// Byte 6: where the time comes from, bits 3:1.
constexpr uint64_t kTimestampFromHost = uint64_t{1} << (48 + 1);
constexpr uint32_t kHostIdBytes = sizeof(nvme::HostId);
constexpr uint32_t kHostBehaviourBytes = sizeof(Features::host_behaviour);

constexpr uint32_t kPowerStateMask = 0x1F;
constexpr uint32_t kDulbe = 1u << 16;  // errors from deallocated blocks
constexpr uint32_t kWriteCacheOn = 1u << 0;
constexpr uint32_t kExtendedHostId = 1u << 0;

bool ServedByDiscovery(FeatureId fid) {
  return fid == FeatureId::kAsyncEventConfiguration ||
         fid == FeatureId::kKeepAliveTimer;
}

// NSIDs that a Set may carry. What belongs to the controller takes none, or all
// of them; only error recovery belongs to a namespace, and one value holds for
// all of ours.
nvme::Status CheckSetNsid(const Controller& controller, FeatureId fid,
                          uint32_t nsid) {
  if (nsid == 0 || nsid == nvme::kNsidBroadcast) return nvme::kSuccess;
  if (fid != FeatureId::kErrorRecovery) {
    return nvme::kFeatureNotPerNamespace.WithDnr();
  }
  if (controller.subsystem().Find(nsid) == nullptr) {
    return nvme::kInvalidNamespace.WithDnr();
  }
  return nvme::kSuccess;
}

// --- the ones with rules, by FID ---

nvme::Status SetPowerManagement(Features* features, uint32_t cdw11) {
  if ((cdw11 & kPowerStateMask) != 0) return nvme::kInvalidField.WithDnr();
  features->power_management = cdw11;
  return nvme::kSuccess;
}

// NSFEAT says that deallocated blocks give no errors.
nvme::Status SetErrorRecovery(Features* features, uint32_t cdw11) {
  if ((cdw11 & kDulbe) != 0) return nvme::kInvalidField.WithDnr();
  features->error_recovery = cdw11;
  return nvme::kSuccess;
}

// The cache is the backing's: it is there and stays on.
nvme::Status SetWriteCache(const Controller& controller, uint32_t cdw11) {
  if (!controller.subsystem().volatile_cache()) {
    return nvme::kInvalidField.WithDnr();
  }
  if ((cdw11 & kWriteCacheOn) == 0) {
    return nvme::kFeatureNotChangeable.WithDnr();
  }
  return nvme::kSuccess;
}

nvme::Status GetWriteCache(Controller* controller, Request* request) {
  if (!controller->subsystem().volatile_cache()) {
    return nvme::kInvalidField.WithDnr();
  }
  request->result = controller->features()->volatile_write_cache;
  return nvme::kSuccess;
}

uint32_t QueueCountsDw0(uint32_t granted) {
  nvme::QueueCounts counts;
  counts.submission = granted;
  counts.completion = granted;
  return nvme::EncodeQueueCounts(counts);
}

nvme::Status SetNumberOfQueues(Controller* controller, uint32_t cdw11,
                               Request* request) {
  if (controller->has_io_queues()) {
    return nvme::kCommandSequenceError.WithDnr();
  }
  nvme::QueueCounts wanted;
  const nvme::Status status = nvme::DecodeQueueCounts(cdw11, &wanted);
  if (!status.ok()) return status;
  // Ours come in pairs.
  const uint32_t granted =
      controller->GrantIoQueues(std::min(wanted.submission, wanted.completion));
  request->result = QueueCountsDw0(granted);
  return nvme::kSuccess;
}

// Before the first Set: what could be granted.
nvme::Status GetNumberOfQueues(const Controller& controller, Request* request) {
  const uint32_t granted = controller.granted_io_queues();
  request->result = QueueCountsDw0(
      granted != 0 ? granted : controller.info().limits.io_queues_max);
  return nvme::kSuccess;
}

// The SMART bits are taken, as SPDK sets them all; no event comes of them.
nvme::Status SetAsyncEvents(Controller* controller, uint32_t cdw11) {
  const uint32_t offered =
      nvme::kAecSmartMask |
      (controller->discovery() ? nvme::kAecDiscovery : nvme::kAecNamespace);
  if ((cdw11 & ~offered) != 0) return nvme::kInvalidField.WithDnr();
  controller->features()->async_events = cdw11;
  return nvme::kSuccess;
}

nvme::Status SetTimestamp(Controller* controller, Request* request) {
  Features* features = controller->features();
  features->timestamp_base_ms =
      nvme::Load64(request->buffer(), 0) & kTimestampMask;
  features->timestamp_set_nanos = controller->shard()->reactor()->now_nanos();
  return nvme::kSuccess;
}

// 0 until the host has set one; runs on from there.
nvme::Status GetTimestamp(Controller* controller, Request* request) {
  const Features& features = *controller->features();
  uint64_t value = 0;
  if (features.timestamp_set_nanos != 0) {
    const int64_t passed_nanos = controller->shard()->reactor()->now_nanos() -
                                 features.timestamp_set_nanos;
    const uint64_t now_ms =
        features.timestamp_base_ms +
        static_cast<uint64_t>(passed_nanos / kNanosPerMilli);
    value = (now_ms & kTimestampMask) | kTimestampFromHost;
  }
  nvme::Store64(request->buffer(), 0, value);
  return nvme::kSuccess;
}

// In milliseconds, unlike nvmet, as Get Features tells it too.
nvme::Status SetKeepAlive(Controller* controller, uint32_t kato_ms,
                          Request* request) {
  controller->SetKato(kato_ms);
  request->result = controller->kato_ms();
  return nvme::kSuccess;
}

// The identifier of Connect; fabrics has the 16-byte one only.
nvme::Status GetHostIdentifier(const Controller& controller, uint32_t cdw11,
                               Request* request) {
  if ((cdw11 & kExtendedHostId) == 0) return nvme::kInvalidField.WithDnr();
  std::memcpy(request->buffer().data(), controller.info().hostid.data(),
              kHostIdBytes);
  return nvme::kSuccess;
}

nvme::Status SetHostBehaviour(Features* features, Request* request) {
  std::memcpy(features->host_behaviour.data(), request->buffer().data(),
              kHostBehaviourBytes);
  return nvme::kSuccess;
}

nvme::Status GetHostBehaviour(const Features& features, Request* request) {
  std::memcpy(request->buffer().data(), features.host_behaviour.data(),
              kHostBehaviourBytes);
  return nvme::kSuccess;
}

nvme::Status Store(uint32_t cdw11, uint32_t* value) {
  *value = cdw11;
  return nvme::kSuccess;
}

nvme::Status Tell(uint32_t value, Request* request) {
  request->result = value;
  return nvme::kSuccess;
}

nvme::Status Set(Controller* controller, const SetFeaturesCommand& command,
                 Request* request) {
  Features* features = controller->features();
  switch (static_cast<FeatureId>(command.fid)) {
    case FeatureId::kArbitration:
      return Store(command.cdw11, &features->arbitration);
    case FeatureId::kPowerManagement:
      return SetPowerManagement(features, command.cdw11);
    case FeatureId::kTemperatureThreshold:
      return Store(command.cdw11, &features->temperature_threshold);
    case FeatureId::kErrorRecovery:
      return SetErrorRecovery(features, command.cdw11);
    case FeatureId::kVolatileWriteCache:
      return SetWriteCache(*controller, command.cdw11);
    case FeatureId::kNumberOfQueues:
      return SetNumberOfQueues(controller, command.cdw11, request);
    case FeatureId::kWriteAtomicity:
      return Store(command.cdw11, &features->write_atomicity);
    case FeatureId::kAsyncEventConfiguration:
      return SetAsyncEvents(controller, command.cdw11);
    case FeatureId::kTimestamp:
      return SetTimestamp(controller, request);
    case FeatureId::kKeepAliveTimer:
      return SetKeepAlive(controller, command.cdw11, request);
    case FeatureId::kHostBehaviour:
      return SetHostBehaviour(features, request);
    case FeatureId::kHostIdentifier:  // Connect has said it
      return nvme::kCommandSequenceError.WithDnr();
    default:
      return nvme::kInvalidField.WithDnr();
  }
}

nvme::Status Get(Controller* controller,
                 const nvme::GetFeaturesCommand& command, Request* request) {
  const Features& features = *controller->features();
  switch (static_cast<FeatureId>(command.fid)) {
    case FeatureId::kArbitration:
      return Tell(features.arbitration, request);
    case FeatureId::kPowerManagement:
      return Tell(features.power_management, request);
    case FeatureId::kTemperatureThreshold:
      return Tell(features.temperature_threshold, request);
    case FeatureId::kErrorRecovery:
      return Tell(features.error_recovery, request);
    case FeatureId::kVolatileWriteCache:
      return GetWriteCache(controller, request);
    case FeatureId::kNumberOfQueues:
      return GetNumberOfQueues(*controller, request);
    case FeatureId::kWriteAtomicity:
      return Tell(features.write_atomicity, request);
    case FeatureId::kAsyncEventConfiguration:
      return Tell(features.async_events, request);
    case FeatureId::kTimestamp:
      return GetTimestamp(controller, request);
    case FeatureId::kKeepAliveTimer:
      return Tell(controller->kato_ms(), request);
    case FeatureId::kHostBehaviour:
      return GetHostBehaviour(features, request);
    case FeatureId::kHostIdentifier:
      return GetHostIdentifier(*controller, command.cdw11, request);
    default:
      return nvme::kInvalidField.WithDnr();
  }
}

}  // namespace

uint32_t SetFeaturesBytes(uint8_t fid) {
  switch (static_cast<FeatureId>(fid)) {
    case FeatureId::kTimestamp:
      return kTimestampBytes;
    case FeatureId::kHostBehaviour:
      return kHostBehaviourBytes;
    default:
      return 0;
  }
}

uint32_t GetFeaturesBytes(const nvme::GetFeaturesCommand& command) {
  switch (static_cast<FeatureId>(command.fid)) {
    case FeatureId::kTimestamp:
      return kTimestampBytes;
    case FeatureId::kHostBehaviour:
      return kHostBehaviourBytes;
    case FeatureId::kHostIdentifier:
      return (command.cdw11 & kExtendedHostId) != 0 ? kHostIdBytes : 0;
    default:
      return 0;
  }
}

nvme::Status SetFeatures(Controller* controller, Request* request) {
  const SetFeaturesCommand command = nvme::DecodeSetFeatures(request->sqe());
  const auto fid = static_cast<FeatureId>(command.fid);
  SLUICE_CHECK(request->bytes == SetFeaturesBytes(command.fid));
  if (command.save) return nvme::kFeatureNotSaveable.WithDnr();
  if (controller->discovery() && !ServedByDiscovery(fid)) {
    return nvme::kInvalidField.WithDnr();
  }
  const nvme::Status status =
      CheckSetNsid(*controller, fid, request->sqe().nsid);
  if (!status.ok()) return status;
  return Set(controller, command, request);
}

// NSID does not matter: nvme-cli sends that of the device it was given, also
// for what belongs to the controller.
nvme::Status GetFeatures(Controller* controller, Request* request) {
  const nvme::GetFeaturesCommand command =
      nvme::DecodeGetFeatures(request->sqe());
  SLUICE_CHECK(request->bytes == GetFeaturesBytes(command));
  if (controller->discovery() &&
      !ServedByDiscovery(static_cast<FeatureId>(command.fid))) {
    return nvme::kInvalidField.WithDnr();
  }
  return Get(controller, command, request);
}

}  // namespace sluice::target
