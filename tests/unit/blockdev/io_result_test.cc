#include "blockdev/io_result.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/unit/blockdev/device_test_util.h"

namespace sluice::blockdev {
namespace {

TEST(IoResult, MapsEachErrno) {
  const struct {
    int error;
    IoResult read;
    IoResult write;
  } kCases[] = {
      {0, IoResult::kOk, IoResult::kOk},
      {EIO, IoResult::kReadFault, IoResult::kWriteFault},
      {EILSEQ, IoResult::kReadFault, IoResult::kWriteFault},
      {EINVAL, IoResult::kReadFault, IoResult::kWriteFault},
      {ENOSPC, IoResult::kNoSpace, IoResult::kNoSpace},
      {EDQUOT, IoResult::kNoSpace, IoResult::kNoSpace},
      {EFBIG, IoResult::kNoSpace, IoResult::kNoSpace},
      {EROFS, IoResult::kReadFault, IoResult::kReadOnly},
      {EPERM, IoResult::kReadFault, IoResult::kReadOnly},
      {EACCES, IoResult::kReadFault, IoResult::kReadOnly},
      {EOPNOTSUPP, IoResult::kUnsupported, IoResult::kUnsupported},
      {ENODEV, IoResult::kGone, IoResult::kGone},
      {ENXIO, IoResult::kGone, IoResult::kGone},
      {ENOMEDIUM, IoResult::kGone, IoResult::kGone},
      {ECANCELED, IoResult::kAborted, IoResult::kAborted},
      {EAGAIN, IoResult::kRetry, IoResult::kRetry},
      {ENOMEM, IoResult::kRetry, IoResult::kRetry},
      {EINTR, IoResult::kRetry, IoResult::kRetry},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(IoResultFromErrno(c.error, IoDirection::kRead), c.read)
        << c.error;
    EXPECT_EQ(IoResultFromErrno(c.error, IoDirection::kWrite), c.write)
        << c.error;
  }
}

TEST(IoResult, EachHasAName) {
  for (int i = 0; i <= static_cast<int>(IoResult::kRetry); ++i) {
    EXPECT_NE(IoResultName(static_cast<IoResult>(i)), "unknown") << i;
  }
}

}  // namespace
}  // namespace sluice::blockdev
