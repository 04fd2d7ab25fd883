#include "transport/cq_ledger.h"

#include <gtest/gtest.h>

namespace sluice::transport {
namespace {

TEST(CqLedger, ReservesUpToItsCapacity) {
  CqLedger ledger(10);

  EXPECT_TRUE(ledger.Reserve(4));
  EXPECT_TRUE(ledger.Reserve(6));
  EXPECT_FALSE(ledger.Reserve(1));
  EXPECT_EQ(ledger.free(), 0U);
  EXPECT_EQ(ledger.reserved(), 10U);
}

TEST(CqLedger, RefusalChangesNothing) {
  CqLedger ledger(10);
  ASSERT_TRUE(ledger.Reserve(8));

  EXPECT_FALSE(ledger.Reserve(3));
  EXPECT_FALSE(ledger.Reserve(UINT32_MAX));

  EXPECT_EQ(ledger.reserved(), 8U);
  EXPECT_EQ(ledger.free(), 2U);
}

TEST(CqLedger, ReleaseMakesRoomAgain) {
  CqLedger ledger(10);
  ASSERT_TRUE(ledger.Reserve(10));

  ledger.Release(4);

  EXPECT_FALSE(ledger.Reserve(5));
  EXPECT_TRUE(ledger.Reserve(4));
}

TEST(CqLedger, CountsWhatIsOutstanding) {
  CqLedger ledger(10);
  ASSERT_TRUE(ledger.Reserve(8));

  ledger.Posted(5);
  ledger.Returned(3);
  ledger.Posted(1);

  EXPECT_EQ(ledger.outstanding(), 3U);
  EXPECT_EQ(ledger.outstanding_max(), 5U);
}

TEST(CqLedgerDeathTest, ChecksItsArithmetic) {
  CqLedger ledger(10);
  ASSERT_TRUE(ledger.Reserve(2));

  EXPECT_DEATH(ledger.Release(3), "");
  EXPECT_DEATH(ledger.Returned(1), "");
}

}  // namespace
}  // namespace sluice::transport
