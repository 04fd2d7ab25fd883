#include "blockdev/uring_device.h"

#include <linux/fs.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "blockdev/limits.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace sluice::blockdev {
namespace {

Task<IoResult> Finished(IoResult result) { co_return result; }

bool IsPutOff(int error) { return error == EAGAIN || error == EINTR; }

}  // namespace

absl::StatusOr<std::unique_ptr<UringDevice>> UringDevice::Create(
    const UringFile& file, Reactor* reactor, BlockingPool* pool) {
  SLUICE_DCHECK_ON(reactor);
  std::unique_ptr<BouncePool> bounce;
  if (file.geometry.direct) {
    SLUICE_ASSIGN_OR_RETURN(bounce, BouncePool::Create(reactor));
  }
  return std::unique_ptr<UringDevice>(
      new UringDevice(file, reactor, pool, std::move(bounce)));
}

UringDevice::UringDevice(const UringFile& file, Reactor* reactor,
                         BlockingPool* pool, std::unique_ptr<BouncePool> bounce)
    : BlockDevice(file.geometry),
      reactor_(reactor),
      pool_(pool),
      fd_(file.fd),
      is_device_(file.is_device),
      file_(reactor->ring()->AddFile(file.fd)),
      space_(file.space),
      dsync_works_(file.dsync),
      bounce_(std::move(bounce)),
      space_slots_(reactor, kSpaceOperationsMax) {}

UringDevice::~UringDevice() {
  SLUICE_DCHECK_ON(reactor_);
  SLUICE_CHECK(in_flight_ == 0);
  reactor_->ring()->RemoveFile(file_);
}

Task<IoResult> UringDevice::Read(uint64_t offset_bytes, IoBuffer buffer) {
  const Transfer transfer{IoDirection::kRead, false, offset_bytes, buffer};
  return Start(transfer);
}

Task<IoResult> UringDevice::Write(uint64_t offset_bytes, IoBuffer buffer,
                                  bool fua) {
  if (geometry_.read_only) return Finished(IoResult::kReadOnly);
  const Transfer transfer{IoDirection::kWrite, fua, offset_bytes, buffer};
  return Start(transfer);
}

Task<IoResult> UringDevice::Start(Transfer transfer) {
  SLUICE_DCHECK_ON(reactor_);
  const uint64_t length_bytes = transfer.buffer.length_bytes;
  SLUICE_DCHECK(transfer.offset_bytes % geometry_.block_bytes == 0);
  SLUICE_DCHECK(length_bytes % geometry_.block_bytes == 0);
  if (!InRange(transfer.offset_bytes, length_bytes)) {
    return Finished(IoResult::kOutOfRange);
  }
  if (IsAligned(transfer.buffer)) return Run(transfer);
  return RunBounced(transfer);
}

bool UringDevice::IsAligned(const IoBuffer& buffer) const {
  const uint64_t mask = geometry_.buffer_alignment_bytes - 1;
  return !geometry_.direct ||
         (reinterpret_cast<uintptr_t>(buffer.data) & mask) == 0;
}

Task<IoResult> UringDevice::Run(Transfer transfer) {
  // A short step is resumed where O_DIRECT can resume.
  const uint32_t step_bytes = geometry_.direct ? geometry_.block_bytes : 1;
  uint32_t done_bytes = 0;
  int tries = 0;
  bool flush = transfer.fua && !dsync_works_;
  while (done_bytes < transfer.buffer.length_bytes) {
    const bool dsync = transfer.fua && dsync_works_;
    RingOp op(reactor_);
    Prepare(transfer, done_bytes, dsync, op.sqe());
    ++in_flight_;
    const int32_t result = co_await op;
    --in_flight_;
    if (result > 0) {
      const uint32_t step =
          static_cast<uint32_t>(result) / step_bytes * step_bytes;
      done_bytes += step;
      if (step > 0) tries = 0;
      if (step > 0 || ++tries < kTriesMax) continue;
      co_return Failure(EIO, transfer.direction);
    }
    const int error = result == 0 ? EIO : -result;
    if (error == EOPNOTSUPP && dsync) {
      dsync_works_ = false;
      flush = true;
      continue;
    }
    if (!IsPutOff(error) || ++tries >= kTriesMax) {
      co_return Failure(error, transfer.direction);
    }
    SleepFor pause(reactor_, absl::Milliseconds(kRetryPauseMillis));
    co_await pause;
  }
  if (flush) {
    const IoResult flushed = co_await Flush();
    co_return flushed;
  }
  co_return IoResult::kOk;
}

Task<IoResult> UringDevice::RunBounced(Transfer transfer) {
  const bool read = transfer.direction == IoDirection::kRead;
  uint32_t done_bytes = 0;
  IoResult result = IoResult::kOk;
  while (done_bytes < transfer.buffer.length_bytes && result == IoResult::kOk) {
    co_await bounce_->Wait();
    std::byte* const copy = bounce_->Get();
    std::byte* const data = transfer.buffer.data + done_bytes;
    Transfer piece = transfer;
    piece.offset_bytes += done_bytes;
    piece.buffer.data = copy;
    piece.buffer.length_bytes =
        std::min(kBounceBytes, transfer.buffer.length_bytes - done_bytes);
    piece.buffer.ring_buffer = -1;
    if (!read) std::memcpy(copy, data, piece.buffer.length_bytes);
    result = co_await Run(piece);
    if (read && result == IoResult::kOk) {
      std::memcpy(data, copy, piece.buffer.length_bytes);
    }
    bounce_->Put(copy);
    done_bytes += piece.buffer.length_bytes;
  }
  co_return result;
}

void UringDevice::Prepare(const Transfer& transfer, uint32_t done_bytes,
                          bool dsync, io_uring_sqe* sqe) const {
  const IoBuffer& buffer = transfer.buffer;
  const bool read = transfer.direction == IoDirection::kRead;
  std::byte* const data = buffer.data + done_bytes;
  const uint32_t length_bytes = buffer.length_bytes - done_bytes;
  const uint64_t offset_bytes = transfer.offset_bytes + done_bytes;
  if (buffer.ring_buffer >= 0 && read) {
    io_uring_prep_read_fixed(sqe, -1, data, length_bytes, offset_bytes,
                             buffer.ring_buffer);
  } else if (buffer.ring_buffer >= 0) {
    io_uring_prep_write_fixed(sqe, -1, data, length_bytes, offset_bytes,
                              buffer.ring_buffer);
  } else if (read) {
    io_uring_prep_read(sqe, -1, data, length_bytes, offset_bytes);
  } else {
    io_uring_prep_write(sqe, -1, data, length_bytes, offset_bytes);
  }
  if (dsync) sqe->rw_flags = RWF_DSYNC;
  file_.Use(sqe);
}

Task<IoResult> UringDevice::Flush() {
  SLUICE_DCHECK_ON(reactor_);
  for (int tries = 1;; ++tries) {
    RingOp op(reactor_);
    io_uring_prep_fsync(op.sqe(), -1, IORING_FSYNC_DATASYNC);
    file_.Use(op.sqe());
    ++in_flight_;
    const int32_t result = co_await op;
    --in_flight_;
    if (result >= 0) co_return IoResult::kOk;
    if (!IsPutOff(-result) || tries >= kTriesMax) {
      co_return Failure(-result, IoDirection::kWrite);
    }
    SleepFor pause(reactor_, absl::Milliseconds(kRetryPauseMillis));
    co_await pause;
  }
}

IoResult UringDevice::Failure(int error, IoDirection direction) const {
  // The kernel sets a removed disk's size to 0: a read then ends at once, a
  // write finds no space. The ioctl only reads a field.
  if (is_device_ && (error == EIO || error == ENOSPC)) {
    uint64_t size_bytes = 0;
    if (ioctl(fd_, BLKGETSIZE64, &size_bytes) != 0 || size_bytes == 0) {
      return IoResult::kGone;
    }
  }
  return IoResultFromErrno(error, direction);
}

}  // namespace sluice::blockdev
