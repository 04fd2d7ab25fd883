// The one place where the kernel's errors become IoResults.
#pragma once

#include "absl/strings/string_view.h"
#include "blockdev/block_device.h"

namespace sluice::blockdev {

// What was tried: an error of the media is a read's or a write's. Flush,
// zeroing and discarding count as writes.
enum class IoDirection : uint8_t { kRead, kWrite };

// `error` is a positive errno.
IoResult IoResultFromErrno(int error, IoDirection direction);

// "ok", "out of range", …: for logs and tests.
absl::string_view IoResultName(IoResult result);

}  // namespace sluice::blockdev
