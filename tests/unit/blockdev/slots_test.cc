#include "blockdev/slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/async.h"
#include "core/task.h"
#include "tests/unit/blockdev/device_test_util.h"

namespace sluice::blockdev {
namespace {

struct Record {
  std::vector<int> order;
  int inside = 0;
  int most = 0;
};

Task<void> Hold(Reactor* reactor, Slots* slots, int id, Record* record) {
  co_await slots->Take();
  record->order.push_back(id);
  if (++record->inside > record->most) record->most = record->inside;
  SleepFor pause(reactor, absl::Milliseconds(1));
  co_await pause;
  --record->inside;
  slots->Give();
}

TEST(Slots, AreBoundedAndFifo) {
  TestReactor reactor;
  Slots slots(reactor.get(), 2);
  Record record;
  Scope scope;

  for (int i = 0; i < 7; ++i) {
    scope.Spawn(Hold(reactor.get(), &slots, i, &record));
  }
  ASSERT_TRUE(reactor.RunUntil([&] { return scope.size() == 0; }));

  EXPECT_THAT(record.order, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_EQ(record.most, 2);
  EXPECT_EQ(slots.free_count(), 2u);
}

}  // namespace
}  // namespace sluice::blockdev
