#include "core/fd.h"

#include <fcntl.h>

#include <cerrno>

namespace sluice {

absl::Status SetNonBlocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
    return absl::ErrnoToStatus(errno, "fcntl O_NONBLOCK");
  }
  return absl::OkStatus();
}

}  // namespace sluice
