#include "transport/verbs/errno_kept.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

int made = 0;

int* MakeOrNot(int error, bool success) {
  if (error != 0) errno = error;
  return success ? &made : nullptr;
}
int DoOrNot(int error, int result) {
  if (error != 0) errno = error;
  return result;
}

TEST(ErrnoKept, AFailureHasItsOwnReason) {
  errno = EAGAIN;
  EXPECT_EQ(ErrnoKept<&MakeOrNot>::Call(ENOMEM, false), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(ErrnoKept<&DoOrNot>::Call(EADDRINUSE, -1), -1);
  EXPECT_EQ(errno, EADDRINUSE);
}

TEST(ErrnoKept, AFailureWithoutAReasonDoesNotGetAnOlderOne) {
  errno = EAGAIN;
  EXPECT_EQ(ErrnoKept<&MakeOrNot>::Call(0, false), nullptr);
  EXPECT_EQ(errno, EIO);
  errno = 0;
  EXPECT_EQ(ErrnoKept<&DoOrNot>::Call(0, -1), -1);
  EXPECT_EQ(errno, EIO);
}

TEST(ErrnoKept, ASuccessIsPassedOn) {
  EXPECT_EQ(ErrnoKept<&MakeOrNot>::Call(0, true), &made);
  EXPECT_EQ(ErrnoKept<&DoOrNot>::Call(0, 0), 0);
}

}  // namespace
}  // namespace sluice
