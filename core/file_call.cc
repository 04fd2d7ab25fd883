#include "core/file_call.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

namespace sluice {
namespace {

constexpr int kCancelledLookMillis = 10;
constexpr off_t kNoOffset = -1;  // of a stream

enum class Direction { kRead, kWrite };

int32_t Result(ssize_t returned) {
  return returned >= 0 ? static_cast<int32_t>(returned) : -errno;
}

int32_t TransferAt(Direction direction, const io_uring_sqe& sqe, off_t offset) {
  const iovec memory = {reinterpret_cast<void*>(sqe.addr), sqe.len};
  const int flags = sqe.rw_flags;
  return Result(direction == Direction::kRead
                    ? preadv2(sqe.fd, &memory, 1, offset, flags)
                    : pwritev2(sqe.fd, &memory, 1, offset, flags));
}

int32_t Transfer(Direction direction, const io_uring_sqe& sqe,
                 const std::atomic<bool>& cancelled) {
  const int32_t result =
      TransferAt(direction, sqe, static_cast<off_t>(sqe.off));
  if (result != -ESPIPE) return result;
  pollfd stream = {sqe.fd, POLLIN, 0};
  if (direction == Direction::kWrite) stream.events = POLLOUT;
  const bool waits = (sqe.rw_flags & RWF_NOWAIT) == 0;
  while (waits && poll(&stream, 1, kCancelledLookMillis) == 0) {
    if (cancelled.load(std::memory_order_relaxed)) return -ECANCELED;
  }
  return TransferAt(direction, sqe, kNoOffset);
}

int32_t Sync(const io_uring_sqe& sqe) {
  const bool data_only = (sqe.fsync_flags & IORING_FSYNC_DATASYNC) != 0;
  return Result(data_only ? fdatasync(sqe.fd) : fsync(sqe.fd));
}

// Its fields are where io_uring_prep_fallocate puts them.
int32_t Allocate(const io_uring_sqe& sqe) {
  return Result(fallocate(sqe.fd, static_cast<int>(sqe.len),
                          static_cast<off_t>(sqe.off),
                          static_cast<off_t>(sqe.addr)));
}

}  // namespace

int32_t RunFileCall(const io_uring_sqe& sqe,
                    const std::atomic<bool>& cancelled) {
  if (sqe.flags != 0) return -EINVAL;
  switch (sqe.opcode) {
    case IORING_OP_READ:
    case IORING_OP_READ_FIXED:
      return Transfer(Direction::kRead, sqe, cancelled);
    case IORING_OP_WRITE:
    case IORING_OP_WRITE_FIXED:
      return Transfer(Direction::kWrite, sqe, cancelled);
    case IORING_OP_FSYNC:
      return Sync(sqe);
    case IORING_OP_FALLOCATE:
      return Allocate(sqe);
    default:
      return -EINVAL;
  }
}

}  // namespace sluice
