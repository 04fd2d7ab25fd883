// Kernels and seccomp profiles that refuse io_uring: another door, and one
// warning of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <thread>

#include "core/ring.h"
#include "tests/support/refuse_io_uring.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Refusal {
  int error = EPERM;
  UringCalls calls = UringCalls::kAll;
};

// What Create says where io_uring is refused, on a thread of its own.
absl::StatusOr<std::unique_ptr<Ring>> CreateRefused(const Refusal& refusal) {
  absl::StatusOr<std::unique_ptr<Ring>> ring = nullptr;
  std::thread([&] {
    RefuseIoUring(refusal.error, refusal.calls);
    ring = Ring::Create(RingOptions());
  }).join();
  return ring;
}

// This one comes first: it is once per process.
TEST(RingRefused, IsSaidOnce) {
  testing::internal::CaptureStderr();
  for (const int error : {EPERM, ENOSYS}) {
    EXPECT_THAT(CreateRefused({.error = error}), IsOk());
  }
  const std::string said = testing::internal::GetCapturedStderr();

  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_THAT(said, AllOf(HasSubstr(" warning io_uring is refused"),
                          HasSubstr("epoll"), HasSubstr("io_uring_setup"),
                          HasSubstr("kernel.io_uring_disabled"),
                          HasSubstr("Operation not permitted")));
}

TEST(RingRefused, AnotherDoorTakesItsPlace) {
  for (const Refusal& refusal :
       {Refusal{EPERM}, Refusal{ENOSYS}, Refusal{EACCES},
        Refusal{EPERM, UringCalls::kEnterOnly}}) {
    const auto ring = CreateRefused(refusal);

    ASSERT_THAT(ring, IsOk());
    EXPECT_EQ((*ring)->features(), 0u);
  }
}

TEST(RingRefused, ALackOfMemoryIsNoRefusal) {
  EXPECT_THAT(CreateRefused({.error = ENOMEM}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("io_uring_setup")));
}

TEST(RingRefused, MaskedOffNothingIsSaid) {
  RingOptions options;
  options.features = kAllRingFeatures & ~uint32_t{kIoUring};
  testing::internal::CaptureStderr();

  EXPECT_THAT(Ring::Create(options), IsOk());

  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace sluice
