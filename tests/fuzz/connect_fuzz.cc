// What a peer says while it connects: the private data of the connection
// manager, the Connect command and its data; and, since the initiator is told
// where to connect by a log page, the discovery log. The input is given to each
// decoder as a whole.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/types/span.h"
#include "core/check.h"
#include "nvme/connect.h"
#include "nvme/discovery_log.h"
#include "nvme/private_data.h"
#include "nvme/sqe.h"

namespace sluice::nvme {
namespace {

void FuzzPrivateData(absl::Span<const std::byte> bytes) {
  const ConnectRequestLimits limits{
      .qid_max = 64, .admin_depth_max = 32, .io_depth_max = 1024};
  ConnectRequest request;
  const RejectReason reason = DecodeConnectRequest(bytes, limits, &request);
  SLUICE_CHECK(reason < RejectReason::kNoResources);
  SLUICE_CHECK((bytes.size() < kConnectRequestBytes) ==
               (reason == RejectReason::kInvalidPrivateDataLength));
  if (reason == RejectReason::kNone) {
    SLUICE_CHECK(request.qid <= limits.qid_max);
    SLUICE_CHECK(request.queue_depth() >= 2);
    SLUICE_CHECK(
        request.queue_depth() <=
        (request.is_admin() ? limits.admin_depth_max : limits.io_depth_max));
    SLUICE_CHECK(request.hrqsize >= 1);
  }
  if (reason != RejectReason::kInvalidPrivateDataLength) {
    const auto again = EncodeConnectRequest(request);
    SLUICE_CHECK(std::memcmp(again.data(), bytes.data(), 10) == 0);
  }

  ConnectAccept accept;
  SLUICE_CHECK(DecodeConnectAccept(bytes, &accept) ==
               (bytes.size() >= kConnectAcceptBytes));
  ConnectReject reject;
  SLUICE_CHECK(DecodeConnectReject(bytes, &reject) ==
               (bytes.size() >= kConnectRejectBytes));
  SLUICE_CHECK(RejectReasonName(reject.reason) != nullptr);
}

void FuzzCommand(absl::Span<const std::byte> bytes) {
  if (bytes.size() < kSqeBytes) return;
  const ConnectCommand command = DecodeConnectCommand(ReadSqe(bytes));
  Sqe again;
  EncodeConnectCommand(command, &again);
  SLUICE_CHECK(DecodeConnectCommand(again).sqsize == command.sqsize);
  SLUICE_CHECK(DecodeConnectCommand(again).kato_ms == command.kato_ms);
  if (CheckConnectCommand(command, 5, 127).ok()) {
    SLUICE_CHECK(command.qid == 5);
    SLUICE_CHECK(command.queue_depth() >= 2);
    SLUICE_CHECK(command.queue_depth() <= 128);
  }
}

void CheckNqn(const Nqn& nqn) {
  SLUICE_CHECK(nqn.valid());
  SLUICE_CHECK(nqn.view().size() <= kNqnLengthMax);
  SLUICE_CHECK(nqn.view().find('\0') == absl::string_view::npos);
}

void FuzzData(absl::Span<const std::byte> bytes, bool is_admin) {
  ConnectData data;
  const ConnectOutcome outcome = DecodeConnectData(bytes, is_admin, &data);
  SLUICE_CHECK(outcome.ok() || outcome.status.dnr());
  if (!outcome.ok()) return;
  CheckNqn(data.subnqn);
  CheckNqn(data.hostnqn);
  SLUICE_CHECK(!is_admin || data.cntlid == kCntlidDynamic);
  ConnectData again;
  SLUICE_CHECK(
      DecodeConnectData(EncodeConnectData(data), is_admin, &again).ok());
  SLUICE_CHECK(again.hostid == data.hostid);
  SLUICE_CHECK(again.cntlid == data.cntlid);
  SLUICE_CHECK(again.subnqn == data.subnqn);
  SLUICE_CHECK(again.hostnqn == data.hostnqn);
}

void FuzzDiscovery(absl::Span<const std::byte> bytes) {
  const auto header = DecodeDiscoveryHeader(bytes);
  SLUICE_CHECK(!header.ok() || bytes.size() >= 18);
  const auto entry = DecodeDiscoveryEntry(bytes);
  if (!entry.ok()) return;
  SLUICE_CHECK(entry->subnqn.size() <= kNqnLengthMax);
  SLUICE_CHECK(!entry->subnqn.empty());
  SLUICE_CHECK(entry->service.size() <= 32);
  SLUICE_CHECK(entry->address.size() <= 256);
  const std::vector<std::byte> log = BuildDiscoveryLog(1, {*entry});
  const auto again = DecodeDiscoveryEntry(
      absl::MakeConstSpan(log).subspan(kDiscoveryHeaderBytes));
  SLUICE_CHECK(again.ok());
  SLUICE_CHECK(again->subnqn == entry->subnqn);
}

}  // namespace
}  // namespace sluice::nvme

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> bytes(size);  // its end is known to ASan
  if (size > 0) std::memcpy(bytes.data(), data, size);
  sluice::nvme::FuzzPrivateData(bytes);
  sluice::nvme::FuzzCommand(bytes);
  sluice::nvme::FuzzData(bytes, /*is_admin=*/true);
  sluice::nvme::FuzzData(bytes, /*is_admin=*/false);
  sluice::nvme::FuzzDiscovery(bytes);
  return 0;
}
