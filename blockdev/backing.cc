// Which kind of backing a text names.
#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "blockdev/block_device.h"
#include "blockdev/disk_backing.h"
#include "blockdev/file_backing.h"
#include "blockdev/null_device.h"
#include "blockdev/open_path.h"
#include "blockdev/ram_device.h"
#include "core/status_macros.h"
#include "core/units.h"

namespace sluice::blockdev {
namespace {

// SIZE of "null:SIZE" and "ram:SIZE".
absl::StatusOr<uint64_t> ParseSize(const BackingOptions& options,
                                   absl::string_view text) {
  absl::StatusOr<uint64_t> size_bytes = ParseBytes(text);
  if (!size_bytes.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.path, ": ", size_bytes.status().message(), ", as in 64M"));
  }
  if (*size_bytes == 0 || *size_bytes % options.block_bytes != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.path,
                     ": the size must be a positive multiple of the block "
                     "size ",
                     options.block_bytes));
  }
  return size_bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backing>> Backing::Open(
    const BackingOptions& options) {
  if (options.block_bytes != 512 && options.block_bytes != 4096) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.path, ": block size ", options.block_bytes,
                     " is not supported; use 512 or 4096"));
  }
  absl::string_view rest = options.path;
  if (absl::ConsumePrefix(&rest, "null:")) {
    SLUICE_ASSIGN_OR_RETURN(const uint64_t size_bytes,
                            ParseSize(options, rest));
    return NullBacking::Open(options, size_bytes);
  }
  if (absl::ConsumePrefix(&rest, "ram:")) {
    SLUICE_ASSIGN_OR_RETURN(const uint64_t size_bytes,
                            ParseSize(options, rest));
    return RamBacking::Open(options, size_bytes);
  }
  SLUICE_ASSIGN_OR_RETURN(OpenedPath opened, OpenPath(options));
  if (opened.is_device) return DiskBacking::Open(options, std::move(opened));
  return FileBacking::Open(options, std::move(opened));
}

}  // namespace sluice::blockdev
