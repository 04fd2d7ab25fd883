// The NVM command set on the block devices of this reactor [spec §7].
#include <cstring>

#include "core/check.h"
#include "nvme/io_command.h"
#include "target/queue.h"
#include "target/status_map.h"
#include "target/target_shard.h"

namespace sluice::target {
namespace {

bool Modifies(nvme::IoOpcode opcode) {
  return opcode == nvme::IoOpcode::kWrite ||
         opcode == nvme::IoOpcode::kWriteZeroes ||
         opcode == nvme::IoOpcode::kDatasetManagement;
}

}  // namespace

// All that can be refused before any data moves is refused here.
uint32_t Queue::IoDataBytes(const Request& request,
                            nvme::Status* status) const {
  const nvme::Sqe& sqe = request.sqe();
  const auto opcode = static_cast<nvme::IoOpcode>(sqe.opcode);
  switch (opcode) {
    case nvme::IoOpcode::kFlush:
      return 0;  // takes the broadcast NSID
    case nvme::IoOpcode::kRead:
    case nvme::IoOpcode::kWrite:
    case nvme::IoOpcode::kCompare:
    case nvme::IoOpcode::kWriteZeroes:
    case nvme::IoOpcode::kDatasetManagement:
      break;
    default:
      *status = nvme::kInvalidOpcode.WithDnr();
      return 0;
  }
  if (subsystem_->Find(sqe.nsid) == nullptr) {
    *status = nvme::kInvalidNamespace.WithDnr();
    return 0;
  }
  const blockdev::Geometry& geometry = (*devices_)[sqe.nsid - 1]->geometry();
  if (geometry.read_only && Modifies(opcode)) {
    *status = nvme::kNamespaceWriteProtected.WithDnr();
    return 0;
  }
  if (opcode == nvme::IoOpcode::kDatasetManagement) {
    return nvme::DecodeDsm(sqe).data_bytes();
  }
  const nvme::BlockCommand block = nvme::DecodeBlock(sqe);
  *status = nvme::CheckRange(block.slba, block.block_count(),
                             geometry.size_bytes / geometry.block_bytes);
  if (!status->ok() || opcode == nvme::IoOpcode::kWriteZeroes) return 0;
  *status = nvme::CheckTransfer(block.block_count(), geometry.block_bytes,
                                request.data.total_bytes(), kTransferBytesMax);
  return status->ok() ? block.block_count() * geometry.block_bytes : 0;
}

Task<nvme::Status> Queue::ExecuteIo(Request* request) {
  const nvme::Sqe& sqe = request->sqe();
  nvme::Status status;
  if (static_cast<nvme::IoOpcode>(sqe.opcode) == nvme::IoOpcode::kFlush) {
    status = co_await Flush(request);
    co_return status;
  }
  blockdev::BlockDevice* device = (*devices_)[sqe.nsid - 1].get();
  switch (static_cast<nvme::IoOpcode>(sqe.opcode)) {
    case nvme::IoOpcode::kRead:
      status = co_await Read(request, device);
      break;
    case nvme::IoOpcode::kWrite:
      status = co_await Write(request, device);
      break;
    case nvme::IoOpcode::kCompare:
      status = co_await Compare(request, device);
      break;
    case nvme::IoOpcode::kWriteZeroes:
      status = co_await WriteZeroes(request, device);
      break;
    case nvme::IoOpcode::kDatasetManagement:
      status = co_await DatasetManagement(request, device);
      break;
    default:
      status = nvme::kInvalidOpcode.WithDnr();
      break;
  }
  if (status.Is(nvme::kUnrecoveredReadError) || status.Is(nvme::kWriteFault)) {
    ++counters_.media_errors;
  }
  co_return status;
}

Task<nvme::Status> Queue::Read(Request* request,
                               blockdev::BlockDevice* device) {
  const nvme::BlockCommand block = nvme::DecodeBlock(request->sqe());
  ++shard_->probe()->read_commands;
  ++counters_.read_commands;
  blockdev::IoResult result = blockdev::IoResult::kOk;
  // FUA: what is in a volatile cache of the range must be stable first.
  if (block.fua && device->geometry().volatile_cache) {
    result = co_await device->Flush();
  }
  if (result == blockdev::IoResult::kOk && !request->in_place) {
    result = co_await device->Read(block.slba * device->geometry().block_bytes,
                                   request->io_buffer());
  }
  if (result == blockdev::IoResult::kOk) {
    shard_->probe()->read_bytes += request->bytes;
    counters_.read_bytes += request->bytes;
  }
  co_return ToStatus(result);
}

Task<nvme::Status> Queue::Write(Request* request,
                                blockdev::BlockDevice* device) {
  const nvme::BlockCommand block = nvme::DecodeBlock(request->sqe());
  ++shard_->probe()->write_commands;
  ++counters_.write_commands;
  if (request->data.kind == nvme::DataKind::kInCapsule) {
    ++shard_->probe()->in_capsule_writes;
  }
  const blockdev::IoResult result =
      co_await device->Write(block.slba * device->geometry().block_bytes,
                             request->io_buffer(), block.fua);
  if (result == blockdev::IoResult::kOk) {
    shard_->probe()->written_bytes += request->bytes;
    counters_.written_bytes += request->bytes;
  }
  co_return ToStatus(result);
}

// The host's blocks are in the front half of the extent.
Task<nvme::Status> Queue::Compare(Request* request,
                                  blockdev::BlockDevice* device) {
  const nvme::BlockCommand block = nvme::DecodeBlock(request->sqe());
  ++shard_->probe()->compare_commands;
  ++counters_.read_commands;
  SLUICE_DCHECK(request->extent.bytes == 2 * request->bytes);
  blockdev::IoBuffer stored;
  stored.data = request->extent.data + request->bytes;
  stored.length_bytes = request->bytes;
  stored.ring_buffer = request->extent.ring_buffer;
  const blockdev::IoResult result = co_await device->Read(
      block.slba * device->geometry().block_bytes, stored);
  if (result != blockdev::IoResult::kOk) co_return ToStatus(result);
  const bool equal =
      std::memcmp(request->extent.data, stored.data, request->bytes) == 0;
  co_return equal ? nvme::kSuccess : nvme::kCompareFailure.WithDnr();
}

Task<nvme::Status> Queue::WriteZeroes(Request* request,
                                      blockdev::BlockDevice* device) {
  const nvme::BlockCommand block = nvme::DecodeBlock(request->sqe());
  ++shard_->probe()->write_zeroes_commands;
  const uint64_t block_bytes = device->geometry().block_bytes;
  const blockdev::IoResult result = co_await device->WriteZeroes(
      block.slba * block_bytes, block.block_count() * block_bytes,
      block.deallocate, block.fua);
  co_return ToStatus(result);
}

Task<nvme::Status> Queue::DatasetManagement(Request* request,
                                            blockdev::BlockDevice* device) {
  const nvme::DsmCommand command = nvme::DecodeDsm(request->sqe());
  ++shard_->probe()->dataset_management_commands;
  const uint64_t block_bytes = device->geometry().block_bytes;
  const uint64_t blocks = device->geometry().size_bytes / block_bytes;
  for (uint32_t i = 0; i < command.range_count(); ++i) {
    const nvme::DsmRange range = nvme::ReadDsmRange(request->buffer(), i);
    const nvme::Status status =
        nvme::CheckRange(range.slba, range.block_count, blocks);
    if (!status.ok()) co_return status;
  }
  // A hint: without the deallocate bit, or a backing that can, nothing is done.
  if (!command.deallocate || !device->geometry().can_discard) {
    co_return nvme::kSuccess;
  }
  for (uint32_t i = 0; i < command.range_count(); ++i) {
    const nvme::DsmRange range = nvme::ReadDsmRange(request->buffer(), i);
    if (range.block_count == 0) continue;
    const blockdev::IoResult result = co_await device->Discard(
        range.slba * block_bytes, range.block_count * block_bytes);
    if (result != blockdev::IoResult::kOk) co_return ToStatus(result);
  }
  co_return nvme::kSuccess;
}

Task<nvme::Status> Queue::Flush(Request* request) {
  const uint32_t nsid = request->sqe().nsid;
  ++shard_->probe()->flush_commands;
  if (nsid != nvme::kNsidBroadcast && subsystem_->Find(nsid) == nullptr) {
    co_return nvme::kInvalidNamespace.WithDnr();
  }
  for (size_t i = 0; i < devices_->size(); ++i) {
    if (nsid != nvme::kNsidBroadcast && nsid != i + 1) continue;
    blockdev::BlockDevice* device = (*devices_)[i].get();
    if (!device->geometry().volatile_cache) continue;
    const blockdev::IoResult result = co_await device->Flush();
    if (result != blockdev::IoResult::kOk) co_return ToStatus(result);
  }
  co_return nvme::kSuccess;
}

}  // namespace sluice::target
