// File descriptors that a library made and this process waits on.
#pragma once

#include "absl/status/status.h"

namespace sluice {

// O_NONBLOCK, so that a read of nothing returns. Errors: fcntl's.
absl::Status SetNonBlocking(int fd);

}  // namespace sluice
