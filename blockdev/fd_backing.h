// A backing behind a descriptor, file or block device: what both kinds share.
// Owned by the namespace. Thread-safe but for Open and the destructor.
#pragma once

#include <memory>
#include <string>

#include "blockdev/block_device.h"
#include "blockdev/open_path.h"
#include "blockdev/unique_fd.h"
#include "blockdev/uring_device.h"

namespace sluice::blockdev {

class FdBacking : public Backing {
 public:
  absl::StatusOr<std::unique_ptr<BlockDevice>> Attach(
      Reactor* reactor, BlockingPool* pool) override;
  absl::StatusOr<uint64_t> CurrentSizeBytes() const override;
  SizeAnswer size_answer() const override { return size_answer_; }

 protected:
  FdBacking(std::string path, OpenedPath opened, const Geometry& geometry,
            const SpaceSupport& space);

 private:
  const UniqueFd fd_;
  const bool is_device_;
  const SpaceSupport space_;
  const SizeAnswer size_answer_;
};

// By BLKGETSIZE64 or fstat. The error names the path.
absl::StatusOr<uint64_t> SizeBytes(int fd, bool is_device,
                                   const std::string& path);

}  // namespace sluice::blockdev
