// A regular file. Discards punch holes, which read as zeroes; a completed
// write is stable only after a flush, for the file system keeps metadata (and
// the page cache data) back.
#pragma once

#include <memory>

#include "blockdev/fd_backing.h"

namespace sluice::blockdev {

class FileBacking final : public FdBacking {
 public:
  // May block. Takes over an opened regular file.
  static absl::StatusOr<std::unique_ptr<Backing>> Open(
      const BackingOptions& options, OpenedPath opened);

 private:
  using FdBacking::FdBacking;
};

}  // namespace sluice::blockdev
