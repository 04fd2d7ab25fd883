#include "target/admin.h"

#include "core/check.h"
#include "nvme/admin_command.h"
#include "nvme/limits.h"
#include "target/admin_handlers.h"

namespace sluice::target {
namespace {

using nvme::AdminOpcode;

// What a discovery controller serves [spec §5.1].
bool ServedByDiscovery(AdminOpcode opcode) {
  switch (opcode) {
    case AdminOpcode::kGetLogPage:
    case AdminOpcode::kIdentify:
    case AdminOpcode::kSetFeatures:
    case AdminOpcode::kGetFeatures:
    case AdminOpcode::kAsyncEventRequest:
    case AdminOpcode::kKeepAlive:
      return true;
    default:
      return false;
  }
}

nvme::Status CheckServed(const Controller& controller, AdminOpcode opcode) {
  if (!controller.ready()) return nvme::kCommandSequenceError.WithDnr();
  if (controller.discovery() && !ServedByDiscovery(opcode)) {
    return nvme::kInvalidOpcode.WithDnr();
  }
  return nvme::kSuccess;
}

uint32_t LogPageBytes(const nvme::Sqe& sqe, nvme::Status* status) {
  nvme::GetLogPageCommand command;
  *status = nvme::DecodeGetLogPage(sqe, &command);
  if (!status->ok()) return 0;
  if (command.length_bytes > kTransferBytesMax) {
    *status = nvme::kInvalidField.WithDnr();  // above MDTS
    return 0;
  }
  return static_cast<uint32_t>(command.length_bytes);
}

nvme::Status KeepAlive(Controller* controller) {
  if (controller->kato_ms() == 0) return nvme::kKeepAliveInvalid.WithDnr();
  controller->Touch();
  return nvme::kSuccess;
}

// Only event requests can be aborted: whatever else runs is about to end.
nvme::Status Abort(Controller* controller, Request* request) {
  const nvme::AbortCommand command = nvme::DecodeAbort(request->sqe());
  const bool aborted = command.sqid == 0 && controller->AbortEvent(command.cid);
  request->result = aborted ? nvme::kAborted : nvme::kNotAborted;
  return nvme::kSuccess;
}

Task<nvme::Status> AsyncEventRequest(Controller* controller, Request* request) {
  if (controller->parked_events() >= kAerMax) {
    co_return nvme::kAerLimitExceeded.WithDnr();
  }
  Controller::EventWait wait(controller, request->sqe().cid);
  const uint32_t dw0 = co_await wait;
  if (wait.aborted()) co_return nvme::kAbortRequested;
  request->result = dw0;
  co_return nvme::kSuccess;
}

// Everything that is answered without waiting.
nvme::Status ExecuteNow(Controller* controller, Request* request) {
  switch (static_cast<AdminOpcode>(request->sqe().opcode)) {
    case AdminOpcode::kAbort:
      return Abort(controller, request);
    case AdminOpcode::kSetFeatures:
      return SetFeatures(controller, request);
    case AdminOpcode::kGetFeatures:
      return GetFeatures(controller, request);
    case AdminOpcode::kKeepAlive:
      return KeepAlive(controller);
    default:
      return nvme::kInvalidOpcode.WithDnr();
  }
}

}  // namespace

uint32_t AdminDataBytes(const nvme::Sqe& sqe, nvme::Status* status) {
  *status = nvme::kSuccess;
  switch (static_cast<AdminOpcode>(sqe.opcode)) {
    case AdminOpcode::kIdentify:
      return nvme::kIdentifyBytes;
    case AdminOpcode::kGetLogPage:
      return LogPageBytes(sqe, status);
    case AdminOpcode::kSetFeatures:
      return SetFeaturesBytes(nvme::DecodeSetFeatures(sqe).fid);
    case AdminOpcode::kGetFeatures:
      return GetFeaturesBytes(nvme::DecodeGetFeatures(sqe));
    default:
      return 0;
  }
}

Task<nvme::Status> ExecuteAdmin(Controller* controller, Request* request) {
  SLUICE_DCHECK(!request->sqe().is_fabrics());
  const auto opcode = static_cast<AdminOpcode>(request->sqe().opcode);
  nvme::Status status = CheckServed(*controller, opcode);
  if (!status.ok()) co_return status;
  if (controller->discovery()) controller->Touch();
  if (opcode == AdminOpcode::kIdentify) {
    status = co_await Identify(controller, request);
  } else if (opcode == AdminOpcode::kGetLogPage) {
    status = co_await GetLogPage(controller, request);
  } else if (opcode == AdminOpcode::kAsyncEventRequest) {
    status = co_await AsyncEventRequest(controller, request);
  } else {
    status = ExecuteNow(controller, request);
  }
  co_return status;
}

}  // namespace sluice::target
