// Opens what a backing stands on and claims it: O_EXCL for a block device, an
// OFD lock for a file. All errors are one line that names the path and says
// what to do.
#pragma once

#include "absl/status/statusor.h"
#include "blockdev/block_device.h"
#include "blockdev/unique_fd.h"

namespace sluice::blockdev {

struct OpenedPath {
  UniqueFd fd;
  bool is_device = false;
  bool read_only = false;  // asked for, or all that the path allows
};

// May block. Follows symlinks. The descriptor is not O_DIRECT yet.
absl::StatusOr<OpenedPath> OpenPath(const BackingOptions& options);

// The size must be a positive multiple of the block size.
absl::Status CheckSize(const BackingOptions& options, uint64_t size_bytes);

}  // namespace sluice::blockdev
