// Hosts whose connection is refused by the device, wherever that can be.
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "nvme/io_command.h"
#include "tests/conformance/answers.h"
#include "tests/support/allocated_bytes.h"
#include "tests/support/live_target.h"

namespace sluice::target {
namespace {

using conformance::RawController;

constexpr uint32_t kBlockBytes = 512;
constexpr int kCallsMax = 400;
// What tables and queues may keep for the next time.
constexpr size_t kKeptBytes = 128 * 1024;

// A host with an I/O queue that reads a block and goes. False: it was refused,
// or cut off.
bool ComeAndGo(const conformance::RawHost& host) {
  auto controller = RawController::ConnectEnabled(host);
  if (!controller.ok() || !(*controller)->RequestQueues(4).ok()) return false;
  auto queue = (*controller)->OpenQueue(1, 16);
  if (!queue.ok()) return false;
  return conformance::Text((*queue)->Execute((*queue)->BlockSqe(
             nvme::IoOpcode::kRead, 1, 0, 1, kBlockBytes))) == "0x000";
}

struct Field {
  LiveProvider provider;
  uint32_t shared_receives = 0;

  TargetOptions Options() const {
    TargetOptions options = LiveTarget::Options();
    options.shared_receives = shared_receives;
    return options;
  }
};

constexpr Field kFields[] = {{LiveProvider::kFake, 0},
                             {LiveProvider::kIwarp, 0},
                             {LiveProvider::kIwarp, 256}};

std::string FieldName(const ::testing::TestParamInfo<Field>& each) {
  return NameOf(each.param.provider) +
         (each.param.shared_receives > 0 ? "SharedReceives" : "");
}

class AcceptTest : public ::testing::TestWithParam<Field> {
 protected:
  AcceptTest() : live_(GetParam().Options(), GetParam().provider) {
    // What the target keeps for the next host is there after the first few, and
    // its device's timers.
    live_.faults().DelaySends(absl::Milliseconds(1));
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(ComeAndGo(live_.host()));
    live_.faults().ReleaseSends();
    baseline_ = live_.HeldByNobody();
  }
  // Returns how many calls there were to fail.
  int FailEachCallOnce() {
    for (int n = 1; n <= kCallsMax; ++n) {
      const int failed_before = live_.faults().failed_count();
      live_.faults().FailAnyCall(n, ENOMEM);
      (void)ComeAndGo(live_.host());
      // Its end has calls that can fail, too.
      live_.HeldByNobody();
      const bool failed = live_.faults().failed_count() > failed_before;
      live_.faults().Clear();

      EXPECT_TRUE(ComeAndGo(live_.host())) << "after call " << n;
      EXPECT_EQ(live_.UntilHeld(baseline_), baseline_) << "call " << n;
      if (!failed) return n - 1;
    }
    ADD_FAILURE() << "no end of calls";
    return kCallsMax;
  }

  LiveTarget live_;
  Holdings baseline_;
};

// R3: a connection that fails costs nothing and ends nothing: the next one
// works, and what the target holds is what it was.
TEST_P(AcceptTest, AnyCallMayFail) {
  const int calls = FailEachCallOnce();
  const size_t allocated = AllocatedBytes();
  FailEachCallOnce();

  // Of two connections: migrate_id, create_qp, accept and the end.
  EXPECT_GE(calls, 8);
  EXPECT_LT(AllocatedBytes(), allocated + kKeptBytes);
}

// The same for the first host of all, for whom there is more to make.
class FirstAcceptTest : public ::testing::TestWithParam<Field> {};

TEST_P(FirstAcceptTest, AnyCallMayFail) {
  for (int n = 1; n <= kCallsMax; ++n) {
    LiveTarget live(GetParam().Options(), GetParam().provider);
    const int failed_before = live.faults().failed_count();
    live.faults().FailAnyCall(n, ENOMEM);
    (void)ComeAndGo(live.host());
    live.HeldByNobody();
    const bool failed = live.faults().failed_count() > failed_before;
    live.faults().Clear();

    EXPECT_TRUE(ComeAndGo(live.host())) << "after call " << n;
    EXPECT_TRUE(live.Stop());
    if (failed) continue;
    EXPECT_GE(n, 8);
    return;
  }
  ADD_FAILURE() << "no end of calls";
}

INSTANTIATE_TEST_SUITE_P(Fields, FirstAcceptTest, ::testing::ValuesIn(kFields),
                         FieldName);
INSTANTIATE_TEST_SUITE_P(Fields, AcceptTest, ::testing::ValuesIn(kFields),
                         FieldName);

}  // namespace
}  // namespace sluice::target
