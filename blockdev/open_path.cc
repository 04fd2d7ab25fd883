#include "blockdev/open_path.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "blockdev/device_users.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/pause.h"
#include "core/status_macros.h"

namespace sluice::blockdev {
namespace {

// A process that has ended may hold its files a little longer: its io_uring
// lets go of them behind its back. Who restarts us should not have to know.
constexpr int kBusyTries = 20;
constexpr int64_t kBusyPauseNanos = 50 * kNanosPerMilli;

// Repeats a call that returns an errno, 0 for success, while somebody else has
// what it wants, for a second at most.
int WhileBusy(absl::FunctionRef<int()> call) {
  int error = call();
  for (int i = 1; i < kBusyTries; ++i) {
    if (error != EBUSY && error != EAGAIN) break;
    PauseThread(kBusyPauseNanos);
    error = call();
  }
  return error;
}

constexpr char kBusyHelp[] =
    "; stop who uses it, or pass --shared when several may write it";

absl::Status OpenError(const BackingOptions& options, int error) {
  const std::string& path = options.path;
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(absl::StrCat(
          path,
          ": no such file or device; create it (truncate -s SIZE PATH) "
          "or correct the path"));
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(absl::StrCat(
          path, ": permission denied; give this user ",
          options.read_only
              ? "read access"
              : "read and write access, or export it with --read-only"));
    case ETXTBSY:
      return absl::FailedPreconditionError(
          absl::StrCat(path, ": is a running program or swap space; copy it"));
    case ENXIO:
    case ENODEV:
    case ENOMEDIUM:
      return absl::NotFoundError(absl::StrCat(
          path, ": the device has no medium; attach or insert one"));
    default:
      return absl::ErrnoToStatus(error, absl::StrCat("open ", path));
  }
}

absl::Status CheckKind(const std::string& path, mode_t mode) {
  if (S_ISREG(mode) || S_ISBLK(mode)) return absl::OkStatus();
  if (S_ISDIR(mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": is a directory; name a file or a block device in it"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": is neither a regular file nor a block device; name one"));
}

// True when the failed open for writing says that the medium is read-only, not
// that this user may not write it.
bool IsReadOnlyMedium(const std::string& path, bool is_device, int error) {
  if (error == EROFS) return true;
  if (!is_device || (error != EACCES && error != EPERM)) return false;
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  int read_only = 0;
  return fd.ok() && ioctl(fd.get(), BLKROGET, &read_only) == 0 &&
         read_only != 0;
}

absl::Status LockFile(const BackingOptions& options, const OpenedPath& opened) {
  struct flock lock {};
  lock.l_type = opened.read_only ? F_RDLCK : F_WRLCK;
  lock.l_whence = SEEK_SET;
  const int error = WhileBusy([&] {
    return fcntl(opened.fd.get(), F_OFD_SETLK, &lock) == 0 ? 0 : errno;
  });
  if (error == 0) return absl::OkStatus();
  if (error == EAGAIN || error == EACCES) {
    return absl::FailedPreconditionError(
        absl::StrCat(options.path,
                     ": busy: locked by another export or program", kBusyHelp));
  }
  return absl::ErrnoToStatus(
      error, absl::StrCat("lock ", options.path,
                          ": the file system cannot lock it; pass --shared"));
}

}  // namespace

absl::StatusOr<OpenedPath> OpenPath(const BackingOptions& options) {
  const std::string& path = options.path;
  struct stat before {};
  // A FIFO would block in open.
  if (stat(path.c_str(), &before) != 0) return OpenError(options, errno);
  SLUICE_RETURN_IF_ERROR(CheckKind(path, before.st_mode));

  OpenedPath opened;
  opened.is_device = S_ISBLK(before.st_mode);
  opened.read_only = options.read_only;
  const int claim = opened.is_device && !options.shared ? O_EXCL : 0;
  const int flags = O_CLOEXEC | claim;
  errno = WhileBusy([&] {
    opened.fd = UniqueFd(
        open(path.c_str(), flags | (opened.read_only ? O_RDONLY : O_RDWR)));
    return opened.fd.ok() ? 0 : errno;
  });
  if (!opened.fd.ok() && !opened.read_only &&
      IsReadOnlyMedium(path, opened.is_device, errno)) {
    SLUICE_LOG(kInfo) << "backing is read-only" << KV("path", path);
    opened.read_only = true;
    opened.fd = UniqueFd(open(path.c_str(), flags | O_RDONLY));
  }
  if (!opened.fd.ok() && errno == EBUSY) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": busy: ", DescribeDeviceUsers(before.st_rdev), kBusyHelp));
  }
  if (!opened.fd.ok()) return OpenError(options, errno);

  struct stat after {};
  if (fstat(opened.fd.get(), &after) != 0) return OpenError(options, errno);
  if (S_ISBLK(after.st_mode) != opened.is_device) {
    return absl::AbortedError(
        absl::StrCat(path, ": was replaced while it was opened; try again"));
  }
  if (!opened.is_device && !options.shared) {
    SLUICE_RETURN_IF_ERROR(LockFile(options, opened));
  }
  return opened;
}

absl::Status CheckSize(const BackingOptions& options, uint64_t size_bytes) {
  const std::string& path = options.path;
  const uint32_t block_bytes = options.block_bytes;
  if (size_bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ": is empty; give it a size (for a file: truncate -s SIZE PATH)"));
  }
  if (size_bytes % block_bytes == 0) return absl::OkStatus();
  const bool smaller_fits = block_bytes > 512 && size_bytes % 512 == 0;
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": size ", size_bytes, " is not a multiple of the block size ",
      block_bytes, "; ",
      smaller_fits ? std::string("use --block-size 512 or ") : std::string(),
      "make it ", size_bytes / block_bytes * block_bytes + block_bytes,
      " bytes"));
}

}  // namespace sluice::blockdev
