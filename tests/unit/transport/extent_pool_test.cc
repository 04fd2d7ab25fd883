#include "transport/extent_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "core/task.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_reactor.h"

namespace sluice::transport {
namespace {

using ::testing::ElementsAre;

constexpr uint32_t kSmall = 4096;
constexpr uint32_t kLarge = 1 << 20;
constexpr size_t kReserve = 1 << 20;

// What came to whom, in order.
struct Log {
  std::vector<int> served;
  std::vector<Extent> extents;
};

Task<void> TakeOne(ExtentPool* pool, uint32_t bytes, bool urgent, int name,
                   Log* log) {
  ExtentPool::Request request(pool, bytes, urgent);
  const Extent extent = co_await request;
  log->served.push_back(name);
  log->extents.push_back(extent);
}

// Takes, lets others run, gives back, again and again.
Task<void> TakeAndGive(ExtentPool* pool, uint32_t bytes, int rounds,
                       int* served) {
  for (int i = 0; i < rounds; ++i) {
    auto request = pool->Take(bytes);
    const Extent extent = co_await request;
    ++*served;
    pool->Give(extent);
  }
}

class ExtentPoolTest : public ::testing::Test {
 protected:
  // Room for `bytes` beside the urgent reserve.
  void Make(size_t bytes) {
    auto made = ExtentPool::Create(reactor_.get(), bytes + kReserve);
    ASSERT_THAT(made, IsOk());
    pool_ = *std::move(made);
  }
  void Take(uint32_t bytes, int name, bool urgent = false) {
    scope_.Spawn(TakeOne(pool_.get(), bytes, urgent, name, &log_));
  }
  // Gives back the extent that came `index`-th, then lets everybody run.
  void Give(size_t index) {
    pool_->Give(log_.extents[index]);
    reactor_.RunReady();
  }
  size_t waiting() const { return scope_.size(); }

  TestReactor reactor_;
  std::unique_ptr<ExtentPool> pool_;
  Scope scope_;
  Log log_;
};

TEST_F(ExtentPoolTest, GrantsAtOnceWhileThereIsRoom) {
  Make(2 * kLarge);

  Take(kLarge, 1);
  Take(100, 2);

  EXPECT_THAT(log_.served, ElementsAre(1, 2));
  EXPECT_EQ(log_.extents[0].bytes, kLarge);
  EXPECT_EQ(log_.extents[1].bytes, 100U);
  EXPECT_EQ(pool_->waits(), 0U);
  EXPECT_EQ(pool_->used_bytes(), kLarge + kSmall);
  Give(0);
  Give(1);
  EXPECT_EQ(pool_->used_bytes(), 0U);
}

TEST_F(ExtentPoolTest, WaitersOfOneSizeAreServedInOrder) {
  Make(2 * kLarge);
  for (int i = 0; i < 8; ++i) Take(kLarge, i);
  EXPECT_EQ(waiting(), 6U);

  for (size_t i = 0; i < 8; ++i) Give(i);

  EXPECT_THAT(log_.served, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST_F(ExtentPoolTest, EqualSizeNeverOvertakes) {
  Make(2 * kLarge);
  Take(kLarge, 0);
  Take(kSmall, 1);
  Take(kLarge, 2);  // fragmented: waits

  Take(kLarge, 3);
  Take(kSmall, 4);  // smaller, and there is room

  EXPECT_THAT(log_.served, ElementsAre(0, 1, 4));
  for (size_t i = 0; i < 5; ++i) Give(i);
  EXPECT_THAT(log_.served, ElementsAre(0, 1, 4, 2, 3));
}

TEST_F(ExtentPoolTest, OvertakingIsBounded) {
  Make(2 * kLarge);
  Take(kLarge, 0);
  Take(kSmall, 1);
  Take(kLarge, 2);  // waits for both halves to come free

  for (int i = 0; i < 100; ++i) Take(kSmall, 100 + i);

  // 64 went ahead (kOvertakeMax); everybody else now waits for the large one.
  EXPECT_EQ(log_.served.size(), 2U + 64U);
  EXPECT_EQ(waiting(), 1U + 36U);
  Give(0);
  ASSERT_GE(log_.served.size(), 67U);
  EXPECT_EQ(log_.served[66], 2);
  for (size_t i = 1; i < log_.extents.size(); ++i) Give(i);
  EXPECT_EQ(log_.served.size(), 103U);
  EXPECT_EQ(pool_->used_bytes(), 0U);
}

TEST_F(ExtentPoolTest, LargeDoesNotStarveUnderAStreamOfSmallOnes) {
  Make(2 * kLarge);
  for (int i = 0; i < 512; ++i) Take(kSmall, i);
  ASSERT_EQ(log_.served.size(), 512U);
  Take(kLarge, 9999);
  ASSERT_EQ(waiting(), 1U);

  // Each small one that goes makes place for another that comes.
  size_t given = 0;
  bool served = false;
  for (int step = 0; step < 2000 && !served; ++step) {
    Take(kSmall, 1000 + step);
    if (given < log_.extents.size()) Give(given++);
    served = std::find(log_.served.begin(), log_.served.end(), 9999) !=
             log_.served.end();
  }

  EXPECT_TRUE(served);
  while (given < log_.extents.size()) Give(given++);
  EXPECT_EQ(waiting(), 0U);
  EXPECT_EQ(pool_->used_bytes(), 0U);
}

// R15: what admin commands need is there whatever I/O holds.
TEST_F(ExtentPoolTest, UrgentNeverWaitsForIo) {
  Make(2 * kLarge);
  Take(kLarge, 0);
  Take(kLarge, 1);
  for (int i = 2; i < 50; ++i) Take(kLarge, i);
  ASSERT_EQ(waiting(), 48U);

  for (int i = 0; i < 16; ++i) Take(64 * 1024, 100 + i, /*urgent=*/true);

  EXPECT_EQ(log_.served.size(), 2U + 16U);
  for (size_t i = 0; i < log_.extents.size(); ++i) Give(i);
  EXPECT_EQ(waiting(), 0U);
  EXPECT_EQ(pool_->used_bytes(), 0U);
}

TEST_F(ExtentPoolTest, UrgentWaitsForUrgentOnly) {
  Make(2 * kLarge);
  Take(kLarge, 0);
  Take(kLarge, 1);
  for (int i = 0; i < 17; ++i) Take(64 * 1024, 100 + i, /*urgent=*/true);
  ASSERT_EQ(waiting(), 1U);

  Give(2);

  EXPECT_EQ(waiting(), 0U);
  EXPECT_EQ(log_.served.back(), 116);
  Give(0);
  Give(1);
  for (size_t i = 3; i < log_.extents.size(); ++i) Give(i);
}

// R15: urgent is for small ones; a large one has no claim on the reserve.
TEST_F(ExtentPoolTest, LargeIsNeverUrgent) {
  Make(2 * kLarge);
  Take(kLarge, 0);
  Take(kLarge, 1);

  Take(64 * 1024 + 1, 2, /*urgent=*/true);

  EXPECT_EQ(waiting(), 1U);
  Give(0);
  EXPECT_EQ(waiting(), 0U);
  Give(1);
  Give(2);
}

// R14: one Give is enough for all who fit, however many stood in line; nobody
// needs further traffic.
TEST_F(ExtentPoolTest, EveryWaiterIsServedFromGiveAlone) {
  Make(2 * kLarge);
  Take(kLarge, 0);
  Take(kLarge, 1);
  int served = 0;
  const uint32_t sizes[] = {kSmall, 64 * 1024, kLarge, 8192, 512 * 1024};
  for (int i = 0; i < 500; ++i) {
    scope_.Spawn(TakeAndGive(pool_.get(), sizes[i % 5], 3, &served));
  }
  ASSERT_EQ(waiting(), 500U);

  Give(0);

  EXPECT_EQ(waiting(), 0U);
  EXPECT_EQ(served, 1500);
  Give(1);
  EXPECT_EQ(pool_->used_bytes(), 0U);
}

TEST_F(ExtentPoolTest, ExtentsAreApartAndInside) {
  Make(2 * kLarge);
  for (int i = 0; i < 16; ++i) Take(128 * 1024, i, i % 2 == 0);

  for (size_t i = 0; i < log_.extents.size(); ++i) {
    const Extent& extent = log_.extents[i];
    EXPECT_GE(extent.data, pool_->data());
    EXPECT_LE(extent.data + extent.bytes, pool_->data() + pool_->total_bytes());
    std::fill_n(extent.data, extent.bytes, static_cast<std::byte>(i));
  }
  for (size_t i = 0; i < log_.extents.size(); ++i) {
    const Extent& extent = log_.extents[i];
    EXPECT_EQ(std::count(extent.data, extent.data + extent.bytes,
                         static_cast<std::byte>(i)),
              extent.bytes);
    Give(i);
  }
}

TEST_F(ExtentPoolTest, LargestIsHalfThePool) {
  Make(4 * kLarge);

  EXPECT_EQ(pool_->max_bytes(), 2 * kLarge);
  Take(2 * kLarge, 0);
  EXPECT_DEATH(pool_->Take(2 * kLarge + 1), "");
  Give(0);
}

}  // namespace
}  // namespace sluice::transport
