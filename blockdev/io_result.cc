#include "blockdev/io_result.h"

#include <cerrno>

namespace sluice::blockdev {

IoResult IoResultFromErrno(int error, IoDirection direction) {
  const bool read = direction == IoDirection::kRead;
  switch (error) {
    case 0:
      return IoResult::kOk;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return IoResult::kNoSpace;
    case EROFS:
    case EPERM:
    case EACCES:
      return read ? IoResult::kReadFault : IoResult::kReadOnly;
    case EOPNOTSUPP:
    case ENOSYS:
    case ENOTTY:
      return IoResult::kUnsupported;
    case ENODEV:
    case ENXIO:
    case ENOMEDIUM:
    case ESHUTDOWN:
    case ESTALE:
      return IoResult::kGone;
    case ECANCELED:
      return IoResult::kAborted;
    case EAGAIN:
    case EINTR:
    case EBUSY:
    case ENOMEM:
    case ENOBUFS:
      return IoResult::kRetry;
    default:  // EIO and the many names that file systems give to it
      return read ? IoResult::kReadFault : IoResult::kWriteFault;
  }
}

absl::string_view IoResultName(IoResult result) {
  switch (result) {
    case IoResult::kOk:
      return "ok";
    case IoResult::kOutOfRange:
      return "out of range";
    case IoResult::kReadFault:
      return "read fault";
    case IoResult::kWriteFault:
      return "write fault";
    case IoResult::kNoSpace:
      return "no space";
    case IoResult::kReadOnly:
      return "read only";
    case IoResult::kUnsupported:
      return "unsupported";
    case IoResult::kGone:
      return "gone";
    case IoResult::kAborted:
      return "aborted";
    case IoResult::kRetry:
      return "retry";
  }
  return "unknown";
}

}  // namespace sluice::blockdev
