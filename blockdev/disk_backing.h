// A block device: disk, partition, logical volume, loop device. Whether a
// completed write may be lost with the power is what the kernel knows of the
// device's cache.
#pragma once

#include <memory>

#include "blockdev/fd_backing.h"

namespace sluice::blockdev {

class DiskBacking final : public FdBacking {
 public:
  // May block. Takes over an opened block device.
  static absl::StatusOr<std::unique_ptr<Backing>> Open(
      const BackingOptions& options, OpenedPath opened);

 private:
  using FdBacking::FdBacking;
};

}  // namespace sluice::blockdev
