#include "tests/conformance/raw_controller.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/status_macros.h"

namespace sluice::conformance {
namespace {

absl::Status Refused(absl::string_view what, const RawResponse& response) {
  return absl::InternalError(absl::StrCat(
      what, ": status 0x", absl::Hex(response.status().code(), absl::kZeroPad3),
      response.status().dnr() ? "|DNR" : "", " dw0 0x",
      absl::Hex(response.cqe.dw0())));
}

nvme::Sqe AdminSqe(nvme::AdminOpcode opcode) {
  nvme::Sqe sqe;
  sqe.opcode = static_cast<uint8_t>(opcode);
  return sqe;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RawController>> RawController::Connect(
    const RawHost& host, const RawControllerOptions& options) {
  std::unique_ptr<RawController> controller(new RawController(host));
  RawQueueOptions queue = RawQueueOptions::Admin();
  queue.in_capsule_bytes = options.in_capsule_bytes;
  queue.data_bytes = options.data_bytes;
  SLUICE_ASSIGN_OR_RETURN(controller->admin_, RawQueue::Open(host, queue));
  const ConnectAnswer answer = controller->admin_->connection().Connect();
  if (!answer.established()) {
    return absl::InternalError(
        absl::StrCat("admin connection: ", answer.text()));
  }
  RawConnect connect =
      RawConnect::For(host, queue.request, nvme::kCntlidDynamic);
  connect.command.kato_ms = options.kato_ms;
  SLUICE_ASSIGN_OR_RETURN(const RawResponse response,
                          controller->admin_->Connect(connect));
  if (!response.ok()) return Refused("admin Connect", response);
  controller->cntlid_ = nvme::DecodeConnectResponse(response.cqe.dw0()).cntlid;
  return controller;
}

absl::StatusOr<std::unique_ptr<RawController>> RawController::ConnectEnabled(
    const RawHost& host, const RawControllerOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(auto controller, Connect(host, options));
  SLUICE_RETURN_IF_ERROR(controller->Enable());
  return controller;
}

absl::StatusOr<RawResponse> RawController::GetProperty(uint32_t offset,
                                                       uint32_t length_bytes) {
  nvme::Sqe sqe;
  nvme::EncodePropertyGet(
      {.offset_bytes = offset, .length_bytes = length_bytes}, &sqe);
  return admin_->Execute(sqe);
}

absl::StatusOr<RawResponse> RawController::SetProperty(uint32_t offset,
                                                       uint32_t length_bytes,
                                                       uint64_t value) {
  nvme::Sqe sqe;
  nvme::EncodePropertySet(
      {.offset_bytes = offset, .length_bytes = length_bytes, .value = value},
      &sqe);
  return admin_->Execute(sqe);
}

absl::StatusOr<uint64_t> RawController::Property(nvme::Property property) {
  const auto offset = static_cast<uint32_t>(property);
  SLUICE_ASSIGN_OR_RETURN(const RawResponse response,
                          GetProperty(offset, nvme::PropertyBytes(offset)));
  if (!response.ok()) return Refused("Property Get", response);
  return response.cqe.result;
}

absl::StatusOr<nvme::ControllerStatus> RawController::Csts() {
  SLUICE_ASSIGN_OR_RETURN(const uint64_t csts, Property(nvme::Property::kCsts));
  return nvme::DecodeCsts(static_cast<uint32_t>(csts));
}

absl::Status RawController::WaitCsts(
    bool (*reached)(const nvme::ControllerStatus&)) {
  Deadline deadline(2 * kWait);
  while (true) {
    SLUICE_ASSIGN_OR_RETURN(const nvme::ControllerStatus csts, Csts());
    if (reached(csts)) return absl::OkStatus();
    if (csts.fatal) return absl::FailedPreconditionError("CSTS.CFS is set");
    if (!deadline.Nap()) {
      return absl::DeadlineExceededError(
          absl::StrCat("CSTS is still 0x", absl::Hex(nvme::EncodeCsts(csts))));
    }
  }
}

absl::Status RawController::Enable(
    const nvme::ControllerConfiguration& configuration) {
  nvme::ControllerConfiguration cc = configuration;
  cc.enabled = true;
  SLUICE_ASSIGN_OR_RETURN(
      const RawResponse response,
      SetProperty(static_cast<uint32_t>(nvme::Property::kCc), 4,
                  nvme::EncodeCc(cc)));
  if (!response.ok()) return Refused("Property Set CC", response);
  return WaitCsts([](const nvme::ControllerStatus& csts) {
    return csts.ready && !csts.fatal;
  });
}

absl::Status RawController::Disable() {
  SLUICE_ASSIGN_OR_RETURN(
      const RawResponse response,
      SetProperty(static_cast<uint32_t>(nvme::Property::kCc), 4,
                  nvme::EncodeCc({.enabled = false})));
  if (!response.ok()) return Refused("Property Set CC", response);
  return WaitCsts([](const nvme::ControllerStatus& csts) {
    return !csts.ready && !csts.fatal;
  });
}

absl::Status RawController::Shutdown(nvme::ShutdownNotification shn) {
  SLUICE_ASSIGN_OR_RETURN(
      const RawResponse response,
      SetProperty(static_cast<uint32_t>(nvme::Property::kCc), 4,
                  nvme::EncodeCc({.enabled = true, .shn = shn})));
  if (!response.ok()) return Refused("Property Set CC", response);
  return WaitCsts([](const nvme::ControllerStatus& csts) {
    return csts.shst == nvme::ShutdownStatus::kComplete;
  });
}

absl::StatusOr<RawResponse> RawController::Identify(
    const nvme::IdentifyCommand& command, uint32_t nsid, uint32_t sgl_bytes) {
  nvme::Sqe sqe;
  nvme::EncodeIdentify(command, &sqe);
  sqe.nsid = nsid;
  sqe.sgl = data().Keyed(0, sgl_bytes);
  return admin_->Execute(sqe);
}

absl::StatusOr<nvme_id_ctrl> RawController::IdentifyController() {
  SLUICE_ASSIGN_OR_RETURN(
      const RawResponse response,
      Identify({.cns = static_cast<uint8_t>(nvme::Cns::kController)}));
  if (!response.ok()) return Refused("Identify Controller", response);
  nvme_id_ctrl identity;
  std::memcpy(&identity, data().bytes().data(), sizeof(identity));
  return identity;
}

absl::StatusOr<nvme_id_ns> RawController::IdentifyNamespace(uint32_t nsid) {
  SLUICE_ASSIGN_OR_RETURN(
      const RawResponse response,
      Identify({.cns = static_cast<uint8_t>(nvme::Cns::kNamespace)}, nsid));
  if (!response.ok()) return Refused("Identify Namespace", response);
  nvme_id_ns identity;
  std::memcpy(&identity, data().bytes().data(), sizeof(identity));
  return identity;
}

absl::StatusOr<RawResponse> RawController::GetLog(
    const nvme::GetLogPageCommand& command, uint32_t nsid) {
  nvme::Sqe sqe;
  nvme::EncodeGetLogPage(command, &sqe);
  sqe.nsid = nsid;
  sqe.sgl = data().Keyed(0, static_cast<uint32_t>(command.length_bytes));
  return admin_->Execute(sqe);
}

absl::StatusOr<RawResponse> RawController::SetFeature(uint8_t fid,
                                                      uint32_t cdw11) {
  nvme::Sqe sqe;
  nvme::EncodeSetFeatures({.fid = fid, .cdw11 = cdw11}, &sqe);
  return admin_->Execute(sqe);
}

absl::StatusOr<RawResponse> RawController::GetFeature(uint8_t fid,
                                                      uint32_t cdw11) {
  nvme::Sqe sqe;
  nvme::EncodeGetFeatures({.fid = fid, .cdw11 = cdw11}, &sqe);
  return admin_->Execute(sqe);
}

absl::StatusOr<RawResponse> RawController::KeepAlive() {
  return admin_->Execute(AdminSqe(nvme::AdminOpcode::kKeepAlive));
}

absl::StatusOr<uint32_t> RawController::RequestQueues(uint32_t count) {
  SLUICE_ASSIGN_OR_RETURN(
      const RawResponse response,
      SetFeature(
          static_cast<uint8_t>(nvme::FeatureId::kNumberOfQueues),
          nvme::EncodeQueueCounts({.submission = count, .completion = count})));
  if (!response.ok()) return Refused("Set Features 07h", response);
  const uint32_t dw0 = response.cqe.dw0();
  return std::min(dw0 & 0xFFFF, dw0 >> 16) + 1;
}

absl::StatusOr<std::unique_ptr<RawQueue>> RawController::OpenQueue(
    const RawQueueOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(auto queue, RawQueue::Open(host_, options));
  const ConnectAnswer answer = queue->connection().Connect();
  if (!answer.established()) {
    return absl::InternalError(absl::StrCat(
        "connection of I/O queue ", options.request.qid, ": ", answer.text()));
  }
  SLUICE_ASSIGN_OR_RETURN(
      const RawResponse response,
      queue->Connect(RawConnect::For(host_, options.request, cntlid_)));
  if (!response.ok()) return Refused("I/O Connect", response);
  return queue;
}

absl::StatusOr<std::unique_ptr<RawQueue>> RawController::OpenQueue(
    uint16_t qid, uint32_t depth) {
  return OpenQueue(RawQueueOptions::Io(qid, depth, cntlid_));
}

}  // namespace sluice::conformance
