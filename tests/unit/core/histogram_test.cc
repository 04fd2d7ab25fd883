#include "core/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace sluice {
namespace {

TEST(Histogram, AnEmptyOneIsZero) {
  Histogram histogram;

  EXPECT_EQ(histogram.Percentile(0.5), 0u);
  EXPECT_EQ(histogram.count(), 0u);
}

TEST(Histogram, SmallValuesAreExact) {
  for (uint64_t value = 0; value < 32; ++value) {
    Histogram histogram;
    histogram.Record(value);
    histogram.Record(1000);
    EXPECT_EQ(histogram.Percentile(0.5), value);
  }
}

TEST(Histogram, EveryValueIsKnownToSixPercent) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t value = random() >> (random() % 64);
    Histogram histogram;
    histogram.Record(value);
    histogram.Record(UINT64_MAX);

    const uint64_t found = histogram.Percentile(0.5);

    ASSERT_GE(found, value);
    ASSERT_LE(static_cast<double>(found - value),
              0.0625 * static_cast<double>(value));
  }
}

TEST(Histogram, PercentilesOfALongTailAreWithinSixPercent) {
  std::mt19937_64 random(2);
  std::lognormal_distribution<double> latency(10, 2);
  Histogram histogram;
  std::vector<uint64_t> values;
  for (int i = 0; i < 100'000; ++i) {
    values.push_back(static_cast<uint64_t>(latency(random)));
    histogram.Record(values.back());
  }
  std::sort(values.begin(), values.end());

  for (const double share : {0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank = static_cast<size_t>(
        std::ceil(share * static_cast<double>(values.size())));
    const auto exact = static_cast<double>(values[rank - 1]);
    EXPECT_NEAR(static_cast<double>(histogram.Percentile(share)), exact,
                0.0625 * exact + 1)
        << share;
  }
}

TEST(Histogram, TakesTheExtremes) {
  Histogram histogram;
  histogram.Record(0);
  histogram.Record(UINT64_MAX);

  EXPECT_EQ(histogram.Percentile(0), 0u);
  EXPECT_EQ(histogram.Percentile(1), UINT64_MAX);
  EXPECT_EQ(histogram.max(), UINT64_MAX);
}

TEST(Histogram, MergesAndClears) {
  Histogram a;
  Histogram b;
  a.Record(10, 3);
  b.Record(20);

  a.Merge(b);

  EXPECT_EQ(a.count(), 4u);
  EXPECT_EQ(a.sum(), 50u);
  EXPECT_EQ(a.max(), 20u);
  EXPECT_EQ(a.Percentile(0.75), 10u);
  a.Clear();
  EXPECT_EQ(a.count(), 0u);
}

TEST(Histogram, OldValuesFade) {
  Histogram histogram;
  histogram.Record(10, 100);
  histogram.Decay();
  EXPECT_EQ(histogram.count(), 50u);

  histogram.Record(1000, 51);

  EXPECT_EQ(histogram.Percentile(0.4), 10u);
  EXPECT_NEAR(static_cast<double>(histogram.Percentile(0.6)), 1000, 62.5);
  for (int i = 0; i < 10; ++i) histogram.Decay();
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.max(), 0u);
}

}  // namespace
}  // namespace sluice
