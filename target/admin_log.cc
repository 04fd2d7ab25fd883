// Get Log Page [spec §6.6]: any dword offset and length of each log.
#include <array>
#include <cstring>
#include <vector>

#include "core/check.h"
#include "nvme/admin_command.h"
#include "nvme/limits.h"
#include "nvme/log_page.h"
#include "target/admin_handlers.h"
#include "target/discovery.h"
#include "target/target_shard.h"

namespace sluice::target {
namespace {

using nvme::AdminOpcode;
using nvme::GetLogPageCommand;
using nvme::IoOpcode;
using nvme::LogId;

constexpr LogId kPages[] = {
    LogId::kSupportedPages,
    LogId::kError,
    LogId::kSmart,
    LogId::kFirmwareSlot,
    LogId::kChangedNamespaces,
    LogId::kEffects,
};

constexpr AdminOpcode kAdminServed[] = {
    AdminOpcode::kGetLogPage,  AdminOpcode::kIdentify,
    AdminOpcode::kAbort,       AdminOpcode::kSetFeatures,
    AdminOpcode::kGetFeatures, AdminOpcode::kAsyncEventRequest,
    AdminOpcode::kKeepAlive,   AdminOpcode::kFabrics,
};

constexpr IoOpcode kIoServed[] = {
    IoOpcode::kFlush,   IoOpcode::kWrite,       IoOpcode::kRead,
    IoOpcode::kCompare, IoOpcode::kWriteZeroes, IoOpcode::kDatasetManagement,
    IoOpcode::kFabrics,
};

nvme::Status CopySlice(absl::Span<const std::byte> log,
                       const GetLogPageCommand& command, Request* request) {
  return nvme::CopyLogSlice(log, command.offset_bytes, request->buffer());
}

template <typename T>
nvme::Status CopySliceOf(const T& log, const GetLogPageCommand& command,
                         Request* request) {
  std::array<std::byte, sizeof(T)> bytes;
  std::memcpy(bytes.data(), &log, sizeof(log));
  return CopySlice(bytes, command, request);
}

nvme::Status SupportedPages(const GetLogPageCommand& command,
                            Request* request) {
  nvme_supported_log_pages log;
  nvme::BuildSupportedPages(kPages, &log);
  return CopySliceOf(log, command, request);
}

nvme::Status ErrorLog(const Controller& controller,
                      const GetLogPageCommand& command, Request* request) {
  const std::vector<nvme::ErrorEntry> errors = controller.Errors();
  SLUICE_CHECK(errors.size() <= kErrorEntries);
  std::array<nvme_error_log_page, kErrorEntries> log{};
  for (size_t i = 0; i < errors.size(); ++i) {
    nvme::BuildErrorEntry(errors[i], &log[i]);
  }
  return CopySliceOf(log, command, request);
}

nvme::Status CopySmart(const Controller& controller,
                       const ControllerCounters& counters,
                       const GetLogPageCommand& command, Request* request) {
  const std::vector<nvme::ErrorEntry> errors = controller.Errors();
  nvme::SmartHealth health;
  health.read_bytes = counters.read_bytes;
  health.written_bytes = counters.written_bytes;
  health.read_commands = counters.read_commands;
  health.write_commands = counters.write_commands;
  health.media_errors = counters.media_errors;
  health.error_log_entries = errors.empty() ? 0 : errors.front().count;
  nvme_smart_log log;
  nvme::BuildSmartLog(health, &log);
  return CopySliceOf(log, command, request);
}

// Of the controller: LPA says that there is none per namespace.
Task<nvme::Status> SmartLog(Controller* controller, GetLogPageCommand command,
                            Request* request) {
  const uint32_t nsid = request->sqe().nsid;
  if (nsid != 0 && nsid != nvme::kNsidBroadcast) {
    co_return nvme::kInvalidField.WithDnr();
  }
  const ControllerCounters counters = co_await controller->CollectCounters();
  co_return CopySmart(*controller, counters, command, request);
}

nvme::Status FirmwareSlot(const GetLogPageCommand& command, Request* request) {
  nvme_firmware_slot log;
  nvme::BuildFirmwareSlot(kFirmware, &log);
  return CopySliceOf(log, command, request);
}

// Reading it empties it, unless the host wants to read on.
nvme::Status ChangedNamespaces(Controller* controller,
                               const GetLogPageCommand& command,
                               Request* request) {
  std::vector<uint32_t>* changed = controller->changed_namespaces();
  nvme_ns_list log;
  nvme::BuildChangedNamespaces(*changed, &log);
  const nvme::Status status = CopySliceOf(log, command, request);
  if (status.ok() && !command.retain_event) changed->clear();
  return status;
}

nvme::Status EffectsLog(const GetLogPageCommand& command, Request* request) {
  if (command.csi != nvme::kCsiNvm) return nvme::kInvalidField.WithDnr();
  nvme_cmd_effects_log log;
  nvme::BuildEffectsLog(kAdminServed, kIoServed, &log);
  return CopySliceOf(log, command, request);
}

// All but the SMART log.
nvme::Status IoControllerLog(Controller* controller,
                             const GetLogPageCommand& command,
                             Request* request) {
  switch (static_cast<LogId>(command.lid)) {
    case LogId::kSupportedPages:
      return SupportedPages(command, request);
    case LogId::kError:
      return ErrorLog(*controller, command, request);
    case LogId::kFirmwareSlot:
      return FirmwareSlot(command, request);
    case LogId::kChangedNamespaces:
      return ChangedNamespaces(controller, command, request);
    case LogId::kEffects:
      return EffectsLog(command, request);
    default:
      return nvme::kInvalidLogPage.WithDnr();
  }
}

nvme::Status DiscoveryControllerLog(const Controller& controller,
                                    const GetLogPageCommand& command,
                                    Request* request) {
  if (static_cast<LogId>(command.lid) != LogId::kDiscovery) {
    return nvme::kInvalidLogPage.WithDnr();
  }
  const std::vector<std::byte> log =
      DiscoveryLog(*controller.shard()->shared(), controller.info());
  return CopySlice(log, command, request);
}

}  // namespace

Task<nvme::Status> GetLogPage(Controller* controller, Request* request) {
  GetLogPageCommand command;
  nvme::Status status = nvme::DecodeGetLogPage(request->sqe(), &command);
  if (!status.ok()) co_return status;
  SLUICE_CHECK(request->bytes == command.length_bytes);
  if (controller->discovery()) {
    status = DiscoveryControllerLog(*controller, command, request);
  } else if (static_cast<LogId>(command.lid) == LogId::kSmart) {
    status = co_await SmartLog(controller, command, request);
  } else {
    status = IoControllerLog(controller, command, request);
  }
  if (status.ok() && !command.retain_event) {
    controller->LogRead(static_cast<LogId>(command.lid));
  }
  co_return status;
}

}  // namespace sluice::target
