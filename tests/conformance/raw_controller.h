// A controller as a host sees it: the admin queue, connected, and what one does
// with it in a line each. Rules are broken one level below, with admin() and
// RawQueue.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nvme/admin_command.h"
#include "nvme/libnvme_types.h"
#include "nvme/property.h"
#include "tests/conformance/raw_queue.h"

namespace sluice::conformance {

struct RawControllerOptions {
  uint32_t kato_ms = 0;
  uint32_t in_capsule_bytes = 0;   // room in admin capsules
  size_t data_bytes = 128 * 1024;  // of the admin queue
};

class RawController {
 public:
  // Connection and Connect command; not enabled. kInternal with the answer's
  // text if the target refuses.
  static absl::StatusOr<std::unique_ptr<RawController>> Connect(
      const RawHost& host, const RawControllerOptions& options = {});
  // The same, and CC.EN.
  static absl::StatusOr<std::unique_ptr<RawController>> ConnectEnabled(
      const RawHost& host, const RawControllerOptions& options = {});

  const RawHost& host() const { return host_; }
  RawQueue& admin() { return *admin_; }
  RawMemory& data() { return admin_->data(); }
  uint16_t cntlid() const { return cntlid_; }

  // --- Properties. The answer, whatever its status, and the value alone.
  absl::StatusOr<RawResponse> GetProperty(uint32_t offset,
                                          uint32_t length_bytes);
  absl::StatusOr<RawResponse> SetProperty(uint32_t offset,
                                          uint32_t length_bytes,
                                          uint64_t value);
  absl::StatusOr<uint64_t> Property(nvme::Property property);
  absl::StatusOr<nvme::ControllerStatus> Csts();

  // Writes CC and waits for RDY, or CFS, or SHST: kDeadlineExceeded if it
  // never comes, kFailedPrecondition on CFS.
  absl::Status Enable(const nvme::ControllerConfiguration& configuration = {});
  absl::Status Disable();
  absl::Status Shutdown(
      nvme::ShutdownNotification shn = nvme::ShutdownNotification::kNormal);

  // --- Admin commands; data goes to data() at 0.
  absl::StatusOr<RawResponse> Identify(const nvme::IdentifyCommand& command,
                                       uint32_t nsid = 0,
                                       uint32_t sgl_bytes = 4096);
  absl::StatusOr<nvme_id_ctrl> IdentifyController();
  absl::StatusOr<nvme_id_ns> IdentifyNamespace(uint32_t nsid);
  absl::StatusOr<RawResponse> GetLog(const nvme::GetLogPageCommand& command,
                                     uint32_t nsid = nvme::kNsidBroadcast);
  absl::StatusOr<RawResponse> SetFeature(uint8_t fid, uint32_t cdw11);
  absl::StatusOr<RawResponse> GetFeature(uint8_t fid, uint32_t cdw11 = 0);
  absl::StatusOr<RawResponse> KeepAlive();
  // Both numbers; returns how many were granted.
  absl::StatusOr<uint32_t> RequestQueues(uint32_t count);

  // --- I/O queues: connection and Connect command.
  absl::StatusOr<std::unique_ptr<RawQueue>> OpenQueue(
      const RawQueueOptions& options);
  absl::StatusOr<std::unique_ptr<RawQueue>> OpenQueue(uint16_t qid,
                                                      uint32_t depth);

 private:
  explicit RawController(const RawHost& host) : host_(host) {}

  absl::Status WaitCsts(bool (*reached)(const nvme::ControllerStatus&));

  const RawHost host_;
  std::unique_ptr<RawQueue> admin_;
  uint16_t cntlid_ = 0;
};

}  // namespace sluice::conformance
