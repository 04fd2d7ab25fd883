#include "transport/iwarp/memory.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace sluice::iwarp {
namespace {

constexpr int kAll =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

class MrTableTest : public testing::Test {
 protected:
  // A region of addresses only: nobody touches the memory.
  void Init(Mr* mr, uint64_t iova, uint64_t length, int access = kAll) {
    mr->pd = &pd_;
    mr->addr = nullptr;
    mr->iova = iova;
    mr->length = length;
    mr->access = access;
    ASSERT_TRUE(table_.Add(mr));
  }

  AccessFault FaultOf(uint32_t key, uint64_t address, uint64_t bytes,
                      int access = 0, const ibv_pd* pd = nullptr) {
    Mr* mr = table_.Pin(key);
    const AccessFault fault =
        RangeFault(mr, pd == nullptr ? &pd_ : pd, address, bytes, access);
    if (mr != nullptr) MrTable::Unpin(mr);
    return fault;
  }

  MrTable table_;
  Pd pd_;
  Pd other_pd_;
};

TEST_F(MrTableTest, FindsARegionByItsKey) {
  Mr mr;
  Init(&mr, 0x1000, 0x100);

  EXPECT_EQ(mr.lkey, mr.rkey);
  EXPECT_EQ(FaultOf(mr.rkey, 0x1000, 0x100), AccessFault::kNone);

  table_.Remove(&mr);
  EXPECT_EQ(FaultOf(mr.rkey, 0x1000, 0x100), AccessFault::kStag);
}

TEST_F(MrTableTest, NoBitOfAKeyMayBeWrong) {
  Mr mr;
  Init(&mr, 0x1000, 0x100);

  for (int bit = 0; bit < 32; ++bit) {
    EXPECT_EQ(table_.Pin(mr.rkey ^ (1u << bit)), nullptr) << bit;
  }
  EXPECT_EQ(table_.Pin(0), nullptr);
  EXPECT_EQ(table_.Pin(1), nullptr);

  table_.Remove(&mr);
}

TEST_F(MrTableTest, AKeyRestsBeforeItComesAgain) {
  std::set<uint32_t> keys;
  for (int i = 0; i < 4000; ++i) {
    Mr mr;
    Init(&mr, 0, 1);
    EXPECT_TRUE(keys.insert(mr.rkey).second) << i;
    EXPECT_GE(mr.rkey, 2u);
    table_.Remove(&mr);
  }
  for (const uint32_t key : keys) EXPECT_EQ(table_.Pin(key), nullptr);
}

TEST_F(MrTableTest, ManyRegionsLiveAtATime) {
  std::vector<Mr> regions(3000);
  for (size_t i = 0; i < regions.size(); ++i) Init(&regions[i], i << 20, 16);

  for (size_t i = 0; i < regions.size(); ++i) {
    EXPECT_EQ(FaultOf(regions[i].rkey, i << 20, 16), AccessFault::kNone);
  }

  for (Mr& mr : regions) table_.Remove(&mr);
  for (const Mr& mr : regions) EXPECT_EQ(table_.Pin(mr.rkey), nullptr);
}

TEST_F(MrTableTest, EachFaultHasItsName) {
  Mr mr;
  Init(&mr, 0x1000, 0x100, IBV_ACCESS_REMOTE_READ);

  EXPECT_EQ(FaultOf(mr.rkey, 0x1000, 1, IBV_ACCESS_REMOTE_READ, &other_pd_),
            AccessFault::kPd);
  EXPECT_EQ(FaultOf(mr.rkey, 0x1000, 1, IBV_ACCESS_REMOTE_WRITE),
            AccessFault::kRights);
  EXPECT_EQ(FaultOf(mr.rkey, 0xfff, 1), AccessFault::kBounds);
  EXPECT_EQ(FaultOf(mr.rkey, 0xfff, 2), AccessFault::kBounds);
  EXPECT_EQ(FaultOf(mr.rkey, 0x10ff, 1), AccessFault::kNone);
  EXPECT_EQ(FaultOf(mr.rkey, 0x10ff, 2), AccessFault::kBounds);
  EXPECT_EQ(FaultOf(mr.rkey, 0x1100, 1), AccessFault::kBounds);
  EXPECT_EQ(FaultOf(mr.rkey, 0, 1), AccessFault::kBounds);
  EXPECT_EQ(FaultOf(mr.rkey, UINT64_MAX, 2), AccessFault::kWrap);
  EXPECT_EQ(FaultOf(mr.rkey, 0x1000, UINT64_MAX), AccessFault::kWrap);
  EXPECT_EQ(FaultOf(mr.rkey, 0x1000, UINT64_MAX - 0x1000),
            AccessFault::kBounds);

  table_.Remove(&mr);
}

TEST_F(MrTableTest, TheEndOfTheAddressSpaceIsNoWayRound) {
  Mr last;
  Init(&last, UINT64_MAX - 16, 16);  // all but the very last byte
  Mr all;
  Init(&all, 0, UINT64_MAX);

  EXPECT_EQ(FaultOf(last.rkey, UINT64_MAX - 16, 16), AccessFault::kNone);
  EXPECT_EQ(FaultOf(last.rkey, UINT64_MAX - 1, 1), AccessFault::kNone);
  EXPECT_EQ(FaultOf(last.rkey, UINT64_MAX - 1, 2), AccessFault::kWrap);
  EXPECT_EQ(FaultOf(last.rkey, UINT64_MAX, 1), AccessFault::kWrap);
  EXPECT_EQ(FaultOf(last.rkey, 0, 1), AccessFault::kBounds);
  EXPECT_EQ(FaultOf(all.rkey, 0, UINT64_MAX), AccessFault::kNone);
  EXPECT_EQ(FaultOf(all.rkey, 1, UINT64_MAX), AccessFault::kWrap);
  EXPECT_EQ(FaultOf(all.rkey, UINT64_MAX - 1, 1), AccessFault::kNone);

  table_.Remove(&last);
  table_.Remove(&all);
}

TEST_F(MrTableTest, FaultsAreToldAsEachSideDoes) {
  EXPECT_EQ(TaggedReason(AccessFault::kStag), kDdpTaggedStag);
  EXPECT_EQ(TaggedReason(AccessFault::kBounds), kDdpTaggedBounds);
  EXPECT_EQ(TaggedReason(AccessFault::kRights), kDdpTaggedStag);
  EXPECT_EQ(TaggedReason(AccessFault::kPd), kDdpTaggedStream);
  EXPECT_EQ(TaggedReason(AccessFault::kWrap), kDdpTaggedWrap);
  EXPECT_EQ(ReadReason(AccessFault::kStag), kRdmapStag);
  EXPECT_EQ(ReadReason(AccessFault::kBounds), kRdmapBounds);
  EXPECT_EQ(ReadReason(AccessFault::kRights), kRdmapAccess);
  EXPECT_EQ(ReadReason(AccessFault::kPd), kRdmapStream);
  EXPECT_EQ(ReadReason(AccessFault::kWrap), kRdmapWrap);
}

// What a thread does between Pin and Unpin is over when Remove returns.
TEST_F(MrTableTest, RemoveWaitsForPins) {
  std::atomic<uint32_t> key{0};
  std::atomic<bool> alive{false};
  std::atomic<bool> stop{false};
  std::atomic<int> pinned_count{0};
  std::thread user([&] {
    while (!stop.load()) {
      Mr* mr = table_.Pin(key.load());
      if (mr == nullptr) continue;
      EXPECT_TRUE(alive.load());
      ++pinned_count;
      MrTable::Unpin(mr);
    }
  });

  for (int i = 0; i < 2000 || pinned_count.load() < 100; ++i) {
    auto mr = std::make_unique<Mr>();
    Init(mr.get(), 0, 1);
    alive.store(true);
    key.store(mr->rkey);
    if (i % 16 == 0) std::this_thread::yield();
    table_.Remove(mr.get());
    alive.store(false);
  }

  stop.store(true);
  user.join();
}

// A key that comes again is not looked up again: until it lets go, the holder
// does not see that the region is being invalidated.
TEST_F(MrTableTest, ACacheHoldsWhatItFound) {
  std::vector<Mr> regions(100);  // more than it has places for
  for (Mr& mr : regions) Init(&mr, 0x1000, 0x100);
  PinCache cache;

  EXPECT_EQ(cache.Find(&table_, regions[0].lkey ^ 1), nullptr);
  for (Mr& mr : regions) EXPECT_EQ(cache.Find(&table_, mr.lkey), &mr);
  for (Mr& mr : regions) EXPECT_EQ(cache.Find(&table_, mr.lkey), &mr);
  EXPECT_GE(regions[0].pins->load(), 1u);

  cache.Release();
  for (Mr& mr : regions) {
    EXPECT_EQ(mr.pins->load(), 0u);
    EXPECT_TRUE(table_.Invalidate(mr.rkey, &pd_, /*by_peer=*/false));
    EXPECT_EQ(cache.Find(&table_, mr.lkey), nullptr);
    table_.Remove(&mr);
  }
}

TEST_F(MrTableTest, RemoveWaitsForACache) {
  Mr mr;
  Init(&mr, 0x1000, 0x100);
  PinCache cache;
  ASSERT_EQ(cache.Find(&table_, mr.lkey), &mr);
  std::atomic<bool> released{false};
  std::atomic<bool> ordered{false};

  std::thread remover([&] {
    table_.Remove(&mr);
    ordered.store(released.load());
  });
  // It waits, or has not begun: neither way is anything removed yet.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  released.store(true);
  cache.Release();
  remover.join();

  EXPECT_TRUE(ordered.load());
}

TEST_F(MrTableTest, InvalidationIsForItsPd) {
  Mr mr;
  Init(&mr, 0x1000, 0x100);

  EXPECT_FALSE(table_.Invalidate(mr.rkey ^ 1, &pd_, /*by_peer=*/true));
  EXPECT_FALSE(table_.Invalidate(mr.rkey, &other_pd_, /*by_peer=*/true));
  EXPECT_EQ(FaultOf(mr.rkey, 0x1000, 1), AccessFault::kNone);

  EXPECT_TRUE(table_.Invalidate(mr.rkey, &pd_, /*by_peer=*/true));
  EXPECT_EQ(FaultOf(mr.rkey, 0x1000, 1), AccessFault::kStag);
  EXPECT_FALSE(table_.Invalidate(mr.rkey, &pd_, /*by_peer=*/true));

  table_.Remove(&mr);
}

TEST_F(MrTableTest, PeersInvalidateOnlyWhatIsTheirs) {
  Mr mr;
  Init(&mr, 0x1000, 0x100, IBV_ACCESS_LOCAL_WRITE);

  EXPECT_FALSE(table_.Invalidate(mr.rkey, &pd_, /*by_peer=*/true));
  EXPECT_EQ(FaultOf(mr.rkey, 0x1000, 1), AccessFault::kNone);
  EXPECT_TRUE(table_.Invalidate(mr.rkey, &pd_, /*by_peer=*/false));
  EXPECT_EQ(FaultOf(mr.rkey, 0x1000, 1), AccessFault::kStag);

  table_.Remove(&mr);
}

// A peer invalidates what the program deregisters.
TEST_F(MrTableTest, ARegionMayGoWhileItIsInvalidated) {
  std::atomic<uint32_t> key{0};
  std::atomic<bool> stop{false};
  std::atomic<int> invalidated_count{0};
  std::vector<std::thread> peers;
  for (int i = 0; i < 2; ++i) {
    peers.emplace_back([&] {
      while (!stop.load()) {
        if (table_.Invalidate(key.load(), &pd_, /*by_peer=*/true))
          ++invalidated_count;
      }
    });
  }

  for (int i = 0; i < 5000 || invalidated_count.load() < 100; ++i) {
    auto mr = std::make_unique<Mr>();
    Init(mr.get(), 0, 1);
    key.store(mr->rkey);
    if (i % 16 == 0) std::this_thread::yield();
    table_.Remove(mr.get());
  }

  stop.store(true);
  for (std::thread& peer : peers) peer.join();
}

}  // namespace
}  // namespace sluice::iwarp
