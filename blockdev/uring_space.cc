// Zeroing and discarding of UringDevice: none of it is fast, so it takes the
// best call that works, in pieces, a few at a time.
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>

#include "blockdev/limits.h"
#include "blockdev/uring_device.h"
#include "core/check.h"

namespace sluice::blockdev {
namespace {

constexpr int kZeroRange = FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;
constexpr int kPunchHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

// Written from, never to.
alignas(kBufferAlignmentMax) std::byte zero_buffer[kZeroBufferBytes];

// A job for the blocking pool: an ioctl on a range, which waits for the device.
struct RangeIoctl {
  int fd;
  unsigned long request;
  uint64_t range[2];

  int operator()() const { return ioctl(fd, request, range) == 0 ? 0 : errno; }
};

bool IsUnsupported(int error) {
  return error == EOPNOTSUPP || error == ENOTTY || error == ENOSYS;
}

// The call would not do it this time (a range it does not like, a device that
// another holds): take the next way, but do not give it up.
bool IsRefused(int error) {
  return IsUnsupported(error) || error == EINVAL || error == EBUSY;
}

}  // namespace

Task<IoResult> UringDevice::WriteZeroes(uint64_t offset_bytes,
                                        uint64_t length_bytes,
                                        bool may_deallocate, bool fua) {
  SLUICE_DCHECK_ON(reactor_);
  const IoResult check = CheckChange(offset_bytes, length_bytes);
  if (check != IoResult::kOk) co_return check;
  while (length_bytes > 0) {
    const uint64_t piece_bytes =
        PieceBytes(offset_bytes, length_bytes, kZeroPieceBytes);
    co_await space_slots_.Take();
    const int error =
        co_await ZeroPiece(offset_bytes, piece_bytes, may_deallocate);
    IoResult result = IoResult::kOk;
    if (IsRefused(error)) {
      result = co_await WriteZeroBuffers(offset_bytes, piece_bytes);
    } else if (error != 0) {
      result = Failure(error, IoDirection::kWrite);
    }
    space_slots_.Give();
    if (result != IoResult::kOk) co_return result;
    offset_bytes += piece_bytes;
    length_bytes -= piece_bytes;
  }
  if (fua) {
    const IoResult flushed = co_await Flush();
    co_return flushed;
  }
  co_return IoResult::kOk;
}

Task<IoResult> UringDevice::Discard(uint64_t offset_bytes,
                                    uint64_t length_bytes) {
  SLUICE_DCHECK_ON(reactor_);
  const IoResult check = CheckChange(offset_bytes, length_bytes);
  if (check != IoResult::kOk) co_return check;
  while (length_bytes > 0) {
    const uint64_t piece_bytes =
        PieceBytes(offset_bytes, length_bytes, kDiscardPieceBytes);
    co_await space_slots_.Take();
    const int error = co_await DiscardPiece(offset_bytes, piece_bytes);
    space_slots_.Give();
    // It is a hint: what cannot be discarded stays as it was.
    if (error != 0 && !IsRefused(error)) {
      co_return Failure(error, IoDirection::kWrite);
    }
    offset_bytes += piece_bytes;
    length_bytes -= piece_bytes;
  }
  co_return IoResult::kOk;
}

uint64_t UringDevice::PieceBytes(uint64_t offset_bytes, uint64_t length_bytes,
                                 uint64_t piece_bytes_max) const {
  const uint64_t unit_bytes = space_.alignment_bytes;
  const uint64_t over_bytes = offset_bytes % unit_bytes;
  if (over_bytes != 0) return std::min(length_bytes, unit_bytes - over_bytes);
  if (length_bytes < unit_bytes) return length_bytes;
  return std::min(length_bytes - length_bytes % unit_bytes, piece_bytes_max);
}

Task<int> UringDevice::DiscardPiece(uint64_t offset_bytes,
                                    uint64_t length_bytes) {
  if (space_.discard_ioctl) {
    const int error =
        co_await IoctlRange(BLKDISCARD, offset_bytes, length_bytes);
    if (IsUnsupported(error)) space_.discard_ioctl = false;
    co_return error;
  }
  // A block device's hole is zeroed: not what a discard asks for.
  if (!space_.punch_hole || is_device_) co_return EOPNOTSUPP;
  const int error = co_await Fallocate(kPunchHole, offset_bytes, length_bytes);
  if (IsUnsupported(error)) space_.punch_hole = false;
  co_return error;
}

Task<int> UringDevice::ZeroPiece(uint64_t offset_bytes, uint64_t length_bytes,
                                 bool may_deallocate) {
  int error = EOPNOTSUPP;
  if (space_.punch_hole && (may_deallocate || !space_.zero_range)) {
    error = co_await Fallocate(kPunchHole, offset_bytes, length_bytes);
    if (!IsRefused(error)) co_return error;
    if (IsUnsupported(error)) space_.punch_hole = false;
  }
  if (space_.zero_range) {
    error = co_await Fallocate(kZeroRange, offset_bytes, length_bytes);
    if (!IsRefused(error)) co_return error;
    if (IsUnsupported(error)) space_.zero_range = false;
  }
  if (space_.zero_ioctl) {
    error = co_await IoctlRange(BLKZEROOUT, offset_bytes, length_bytes);
    if (IsUnsupported(error)) space_.zero_ioctl = false;
  }
  co_return error;
}

Task<IoResult> UringDevice::WriteZeroBuffers(uint64_t offset_bytes,
                                             uint64_t length_bytes) {
  IoResult result = IoResult::kOk;
  while (length_bytes > 0 && result == IoResult::kOk) {
    Transfer piece{};
    piece.direction = IoDirection::kWrite;
    piece.offset_bytes = offset_bytes;
    piece.buffer.data = zero_buffer;
    piece.buffer.length_bytes = static_cast<uint32_t>(
        std::min<uint64_t>(length_bytes, kZeroBufferBytes));
    result = co_await Run(piece);
    offset_bytes += piece.buffer.length_bytes;
    length_bytes -= piece.buffer.length_bytes;
  }
  co_return result;
}

Task<int> UringDevice::Fallocate(int mode, uint64_t offset_bytes,
                                 uint64_t length_bytes) {
  for (int tries = 1;; ++tries) {
    RingOp op(reactor_);
    io_uring_prep_fallocate(op.sqe(), -1, mode,
                            static_cast<off_t>(offset_bytes),
                            static_cast<off_t>(length_bytes));
    file_.Use(op.sqe());
    ++in_flight_;
    const int32_t result = co_await op;
    --in_flight_;
    if (result >= 0) co_return 0;
    const bool put_off = result == -EINTR || result == -EAGAIN;
    if (!put_off || tries >= kTriesMax) co_return -result;
    SleepFor pause(reactor_, absl::Milliseconds(kRetryPauseMillis));
    co_await pause;
  }
}

Task<int> UringDevice::IoctlRange(unsigned long request, uint64_t offset_bytes,
                                  uint64_t length_bytes) {
  const RangeIoctl job{fd_, request, {offset_bytes, length_bytes}};
  CallBlocking call(pool_, job);
  ++in_flight_;
  const int error = co_await call;
  --in_flight_;
  co_return error;
}

}  // namespace sluice::blockdev
