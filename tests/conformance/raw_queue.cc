#include "tests/conformance/raw_queue.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/check.h"
#include "core/status_macros.h"
#include "nvme/io_command.h"

namespace sluice::conformance {

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
  std::unique_ptr<RawQueue> queue(new RawQueue(options));
  RawConnectionOptions connection;
  connection.address = host.address;
  connection.port = host.port;
  connection.private_data = options.private_data;
  if (!options.sends_private_data) {
    const auto bytes = nvme::EncodeConnectRequest(options.request);
    connection.private_data.assign(bytes.begin(), bytes.end());
  }
  // Enough whatever a test writes into the request.
  const uint32_t depth = std::clamp(options.request.queue_depth(), 2u, 4096u);
  connection.receive_count = depth + options.extra_sends;
  connection.send_count = depth + options.extra_sends;
  connection.capsule_bytes_max =
      static_cast<uint32_t>(nvme::kSqeBytes) + options.in_capsule_bytes;
  connection.responder_resources = options.responder_resources;
  SLUICE_ASSIGN_OR_RETURN(queue->connection_,
                          RawConnection::Open(*host.api, connection));
  SLUICE_ASSIGN_OR_RETURN(queue->data_,
                          queue->connection_->CreateMemory(options.data_bytes));
  return queue;
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

absl::StatusOr<RawResponse> RawQueue::Connect(const RawConnect& connect) {
  SLUICE_CHECK(connect.data.size() <= data_->size());
  nvme::Sqe sqe;
  nvme::EncodeConnectCommand(connect.command, &sqe);
  if (connect.in_capsule) {
    sqe.sgl = nvme::EncodeInCapsule(0, connect.sgl_bytes);
    return Execute(sqe, connect.data);
  }
  std::copy(connect.data.begin(), connect.data.end(), data_->bytes().begin());
  sqe.sgl = data_->Keyed(0, connect.sgl_bytes);
  return Execute(sqe);
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
