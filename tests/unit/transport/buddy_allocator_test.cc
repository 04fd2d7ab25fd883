#include "transport/buddy_allocator.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace sluice::transport {
namespace {

constexpr size_t kPage = 4096;

// SLUICE_TEST_SEED, or a new one; printed either way.
uint64_t Seed() {
  const char* text = std::getenv("SLUICE_TEST_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 0)
                                        : std::random_device()();
  ::testing::Test::RecordProperty("seed", std::to_string(seed));
  std::printf("SLUICE_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

TEST(BuddyAllocator, RoundsUpToPowersOfTwoPages) {
  const struct {
    size_t asked;
    size_t taken;
  } cases[] = {{1, kPage},
               {kPage, kPage},
               {kPage + 1, 2 * kPage},
               {2 * kPage + 1, 4 * kPage},
               {3 * kPage, 4 * kPage},
               {(1 << 20) - 1, 1 << 20}};

  for (const auto& entry : cases) {
    EXPECT_EQ(BuddyAllocator::BlockBytes(entry.asked), entry.taken);
  }
}

TEST(BuddyAllocator, RoundsItsRegionDown) {
  EXPECT_EQ(BuddyAllocator(3 * kPage + 5).total_bytes(), 3 * kPage);
}

TEST(BuddyAllocator, UsesEveryPageOfAnOddRegion) {
  BuddyAllocator allocator(7 * kPage);

  for (int i = 0; i < 7; ++i) {
    EXPECT_NE(allocator.Take(1), BuddyAllocator::kNone);
  }

  EXPECT_EQ(allocator.Take(1), BuddyAllocator::kNone);
  EXPECT_EQ(allocator.used_bytes(), allocator.total_bytes());
}

TEST(BuddyAllocator, RefusesWhatIsTooLarge) {
  BuddyAllocator allocator(8 * kPage);

  EXPECT_EQ(allocator.Take(9 * kPage), BuddyAllocator::kNone);
  EXPECT_EQ(allocator.Take(SIZE_MAX / 4), BuddyAllocator::kNone);
  EXPECT_EQ(allocator.used_bytes(), 0U);
}

TEST(BuddyAllocator, FragmentsAndCoalesces) {
  BuddyAllocator allocator(2 * kPage);
  const size_t first = allocator.Take(1);
  const size_t second = allocator.Take(1);

  allocator.Give(first);
  EXPECT_EQ(allocator.Take(2 * kPage), BuddyAllocator::kNone);
  allocator.Give(second);

  EXPECT_EQ(allocator.Take(2 * kPage), 0U);
}

TEST(BuddyAllocatorDeathTest, RefusesToTakeBackTwice) {
  BuddyAllocator allocator(8 * kPage);
  const size_t offset = allocator.Take(2 * kPage);
  allocator.Give(offset);

  EXPECT_DEATH(allocator.Give(offset), "");
  EXPECT_DEATH(allocator.Give(8 * kPage), "");
  EXPECT_DEATH(allocator.Give(1), "");
}

class BuddyRandom : public ::testing::TestWithParam<size_t> {};

TEST_P(BuddyRandom, NothingOverlapsAndAllComesBack) {
  std::mt19937_64 random(Seed());
  const size_t pages = GetParam();
  BuddyAllocator allocator(pages * kPage);
  std::map<size_t, size_t> taken;  // offset to bytes
  size_t used_bytes = 0;

  for (int step = 0; step < 20'000; ++step) {
    if (!taken.empty() && random() % 100 < 48) {
      const auto victim = std::next(
          taken.begin(), static_cast<std::ptrdiff_t>(random() % taken.size()));
      allocator.Give(victim->first);
      used_bytes -= victim->second;
      taken.erase(victim);
    } else {
      const size_t asked = 1 + random() % (kPage << random() % 7);
      const size_t offset = allocator.Take(asked);
      if (offset == BuddyAllocator::kNone) continue;
      const size_t bytes = BuddyAllocator::BlockBytes(asked);
      ASSERT_EQ(offset % bytes, 0U);
      ASSERT_LE(offset + bytes, allocator.total_bytes());
      const auto [place, fresh] = taken.emplace(offset, bytes);
      ASSERT_TRUE(fresh);
      if (std::next(place) != taken.end()) {
        ASSERT_LE(offset + bytes, std::next(place)->first);
      }
      if (place != taken.begin()) {
        const auto before = std::prev(place);
        ASSERT_LE(before->first + before->second, offset);
      }
      used_bytes += bytes;
    }
    ASSERT_EQ(allocator.used_bytes(), used_bytes);
  }
  for (const auto& [offset, bytes] : taken) allocator.Give(offset);

  EXPECT_EQ(allocator.used_bytes(), 0U);
  // Fully coalesced: the largest blocks are there again.
  for (size_t left = pages; left > 0; left -= std::bit_floor(left)) {
    EXPECT_NE(allocator.Take(std::bit_floor(left) * kPage),
              BuddyAllocator::kNone);
  }
  EXPECT_EQ(allocator.used_bytes(), allocator.total_bytes());
}

INSTANTIATE_TEST_SUITE_P(Sizes, BuddyRandom,
                         ::testing::Values(1, 2, 3, 64, 100, 255, 256, 1000));

}  // namespace
}  // namespace sluice::transport
