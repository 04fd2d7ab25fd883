// Kernels and seccomp profiles that refuse io_uring, and limits that refuse its
// buffers: sluice goes on without, and says so once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <thread>

#include "core/check.h"
#include "core/ring.h"
#include "tests/support/plain_container.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/core/ring_masks.h"

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

// Locked memory is counted against those without this.
void DropIpcLock() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  SLUICE_CHECK(syscall(SYS_capget, &header, data) == 0);
  data[0].effective &= ~(1U << CAP_IPC_LOCK);
  SLUICE_CHECK(syscall(SYS_capset, &header, data) == 0);
}

TEST(RingRefused, BuffersBeyondTheLimitAreSaidOnce) {
  if (IoUringIsRefused()) GTEST_SKIP() << "io_uring is refused here";
  alignas(4096) static char memory[8 << 20];
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  // Enough for the ring itself, which newer kernels count too.
  const rlimit little = {2 << 20, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &little), 0);
  testing::internal::CaptureStderr();
  std::thread([] {
    DropIpcLock();
    auto ring = *Ring::Create(RingOptions());
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(ring->AddBuffer(memory, sizeof(memory)), -1);
    }
    const int small = ring->AddBuffer(memory, 4096);
    EXPECT_GE(small, 0);
    ring->RemoveBuffer(small);
  }).join();
  const std::string said = testing::internal::GetCapturedStderr();
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &before), 0);

  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_THAT(said, AllOf(HasSubstr(" warning io_uring cannot register"),
                          HasSubstr("ulimit -l"), HasSubstr("bytes=8388608"),
                          HasSubstr("Cannot allocate memory")));
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
