#include "tests/conformance/raw_queue.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/check.h"
#include "core/status_macros.h"
#include "nvme/io_command.h"

namespace sluice::conformance {
namespace {

// Over iWARP: a first capsule without an answer for so long is sent anew.
constexpr absl::Duration kFirstWait = absl::Seconds(1);
constexpr int kFirstAttempts = 4;

}  // namespace

FirstCapsules& IwarpFirstCapsules() {
  static FirstCapsules capsules;
  return capsules;
}

RawQueueOptions RawQueueOptions::Admin() {
  RawQueueOptions options;
  options.request.hrqsize = nvme::kAdminDepthMin;
  options.request.set_queue_depth(nvme::kAdminDepthMin);
  return options;
}

RawQueueOptions RawQueueOptions::Io(uint16_t qid, uint32_t depth,
                                    uint16_t cntlid) {
  RawQueueOptions options;
  options.request.qid = qid;
  options.request.hrqsize = static_cast<uint16_t>(depth);
  options.request.set_queue_depth(depth);
  options.request.cntlid = cntlid;
  return options;
}

RawConnect RawConnect::For(const RawHost& host,
                           const nvme::ConnectRequest& request,
                           uint16_t cntlid) {
  RawConnect connect;
  connect.command.qid = request.qid;
  connect.command.sqsize = request.hsqsize;
  nvme::ConnectData data;
  data.hostid = host.hostid;
  data.cntlid = cntlid;
  SLUICE_CHECK(nvme::Nqn::FromText(host.subnqn, &data.subnqn));
  SLUICE_CHECK(nvme::Nqn::FromText(host.hostnqn, &data.hostnqn));
  const auto bytes = nvme::EncodeConnectData(data);
  connect.data.assign(bytes.begin(), bytes.end());
  return connect;
}

absl::StatusOr<std::unique_ptr<RawQueue>> RawQueue::Open(
    const RawHost& host, const RawQueueOptions& options) {
  std::unique_ptr<RawQueue> queue(new RawQueue(host, options));
  SLUICE_RETURN_IF_ERROR(queue->OpenConnection());
  return queue;
}

absl::Status RawQueue::OpenConnection() {
  RawConnectionOptions connection;
  connection.address = host_.address;
  connection.port = host_.port;
  connection.private_data = options_.private_data;
  if (!options_.sends_private_data) {
    const auto bytes = nvme::EncodeConnectRequest(options_.request);
    connection.private_data.assign(bytes.begin(), bytes.end());
  }
  // Enough whatever a test writes into the request.
  const uint32_t depth = std::clamp(options_.request.queue_depth(), 2u, 4096u);
  connection.receive_count =
      options_.receives != 0 ? options_.receives : depth + options_.extra_sends;
  connection.rnr_retry_count = options_.rnr_retry_count;
  connection.send_count = depth + options_.extra_sends;
  connection.capsule_bytes_max =
      static_cast<uint32_t>(nvme::kSqeBytes) + options_.in_capsule_bytes;
  connection.responder_resources = options_.responder_resources;
  connection.has_channel = options_.has_channel;
  data_ = nullptr;
  SLUICE_ASSIGN_OR_RETURN(connection_,
                          RawConnection::Open(*host_.api, connection));
  SLUICE_ASSIGN_OR_RETURN(data_,
                          connection_->CreateMemory(options_.data_bytes));
  return absl::OkStatus();
}

absl::StatusOr<uint16_t> RawQueue::Submit(
    nvme::Sqe sqe, absl::Span<const std::byte> in_capsule) {
  sqe.cid = next_cid_++;
  Bytes capsule(nvme::kSqeBytes + in_capsule.size());
  nvme::WriteSqe(sqe, absl::MakeSpan(capsule));
  std::copy(in_capsule.begin(), in_capsule.end(),
            capsule.begin() + nvme::kSqeBytes);
  SLUICE_RETURN_IF_ERROR(connection_->SendCapsule(capsule));
  return sqe.cid;
}

absl::StatusOr<RawResponse> RawQueue::Execute(
    nvme::Sqe sqe, absl::Span<const std::byte> in_capsule,
    absl::Duration wait) {
  SLUICE_ASSIGN_OR_RETURN(const uint16_t cid, Submit(sqe, in_capsule));
  return connection_->WaitResponse(cid, wait);
}

absl::StatusOr<RawResponse> RawQueue::First(const SendFirst& send) {
  if (!connection_->is_iwarp()) return send(kWait);
  for (int attempt = 1;; ++attempt) {
    ++IwarpFirstCapsules().sent_count;
    const bool last = attempt == kFirstAttempts;
    auto response = send(last ? kWait : kFirstWait);
    if (last || !absl::IsDeadlineExceeded(response.status())) return response;
    ++IwarpFirstCapsules().lost_count;
    // The target reads the old capsule now, and forgets the queue; the new
    // connection takes longer than that.
    connection_->Disconnect();
    SLUICE_RETURN_IF_ERROR(OpenConnection());
    const ConnectAnswer answer = connection_->Connect();
    if (!answer.established()) {
      return absl::UnavailableError("connecting anew: " + answer.text());
    }
  }
}

absl::StatusOr<RawResponse> RawQueue::Connect(const RawConnect& connect) {
  SLUICE_CHECK(connect.data.size() <= data_->size());
  nvme::Sqe sqe;
  nvme::EncodeConnectCommand(connect.command, &sqe);
  if (connect.in_capsule) {
    sqe.sgl = nvme::EncodeInCapsule(0, connect.sgl_bytes);
    return First(
        [&](absl::Duration wait) { return Execute(sqe, connect.data, wait); });
  }
  return First([&](absl::Duration wait) {
    std::copy(connect.data.begin(), connect.data.end(), data_->bytes().begin());
    sqe.sgl = data_->Keyed(0, connect.sgl_bytes);
    return Execute(sqe, {}, wait);
  });
}

nvme::Sqe RawQueue::BlockSqe(nvme::IoOpcode opcode, uint32_t nsid,
                             uint64_t slba, uint32_t block_count,
                             uint32_t block_bytes, size_t offset) const {
  nvme::Sqe sqe;
  nvme::BlockCommand command;
  command.slba = slba;
  command.set_block_count(block_count);
  nvme::EncodeBlock(opcode, command, &sqe);
  sqe.nsid = nsid;
  sqe.sgl = data_->Keyed(offset, block_count * block_bytes);
  return sqe;
}

}  // namespace sluice::conformance
