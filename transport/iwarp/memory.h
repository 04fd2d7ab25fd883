// Protection domains, memory regions, and the table that finds a region by the
// key a peer or a work request names [iwarp §3.7, §4.8, §7.6].
//
// A key is 32 bits that say nothing: slot and generation of a region, scrambled
// with a secret of this process. It is not given out again before the slot has
// had 4095 other regions.
//
// Memory is touched between Pin and Unpin only. Deregistration and invalidation
// first mark the region, then wait for those pins: they are short, around one
// system call that does not block and what it brought.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/iwarp/rdmap.h"

namespace sluice::iwarp {

struct Pd : ibv_pd {
  static Pd* From(ibv_pd* pd) { return static_cast<Pd*>(pd); }
  std::atomic<int> users{0};  // memory regions, queue pairs, SRQs
};

struct Mr : ibv_mr {
  static Mr* From(ibv_mr* mr) { return static_cast<Mr*>(mr); }

  int access = 0;
  uint64_t iova = 0;  // address of the first byte for SGEs and peers
  std::atomic<bool> valid{true};
  std::atomic<uint32_t>* pins = nullptr;  // its slot's in the MrTable

  std::byte* At(uint64_t address) const {
    return static_cast<std::byte*>(addr) + (address - iova);
  }
  bool Covers(uint64_t address, uint64_t bytes) const {
    return address >= iova && address - iova <= length &&
           bytes <= length - (address - iova);
  }
};

class MrTable {
 public:
  MrTable();
  ~MrTable();
  MrTable(const MrTable&) = delete;
  MrTable& operator=(const MrTable&) = delete;

  // Gives the region its keys. False: the table is full.
  bool Add(Mr* mr);
  // No pin of it is held or taken after this.
  void Remove(Mr* mr);
  // All access by that key ends; it stays taken until Remove, which may run at
  // the same time. False: `pd` has no such region, or, by a peer's wish, none
  // that peers have rights to. Not while the caller holds a pin of it.
  bool Invalidate(uint32_t key, const ibv_pd* pd, bool by_peer);

  // The region of that key, pinned, or null. Lock-free.
  Mr* Pin(uint32_t key);
  static void Unpin(Mr* mr) {
    mr->pins->fetch_sub(1, std::memory_order_release);
  }

 private:
  static constexpr uint32_t kSlotBits = 20;
  static constexpr uint32_t kSlotsMax = 1u << kSlotBits;
  static constexpr uint32_t kChunkSlots = 1024;
  static constexpr uint32_t kGenerations = 1u << (32 - kSlotBits);

  struct Slot {
    std::atomic<Mr*> mr{nullptr};
    // Of the slot and not of the region: it may be counted up before anybody
    // knows whether there is a region.
    std::atomic<uint32_t> pins{0};
    uint32_t generation = 0;  // guarded by mutex_
  };
  struct Chunk {
    Slot slots[kChunkSlots];
  };

  uint32_t Scramble(uint32_t plain) const;
  uint32_t Unscramble(uint32_t key) const;
  Slot* SlotAt(uint32_t index) const;

  uint64_t secret_[2];
  std::mutex mutex_;
  std::atomic<Chunk*> chunks_[kSlotsMax / kChunkSlots] = {};
  std::vector<uint32_t> free_;
  uint32_t free_first_ = 0;  // oldest first: keys rest for as long as possible
  uint32_t used_ = 0;
};

// Pins held for a while, so that a key that comes again and again is looked up
// once. Release comes before anything that waits for pins, or for somebody who
// may. Not thread-safe.
class PinCache {
 public:
  PinCache() { held_.reserve(kHeldUsually); }
  ~PinCache() { Release(); }
  PinCache(const PinCache&) = delete;
  PinCache& operator=(const PinCache&) = delete;

  // The region of that key, pinned until Release, or null.
  Mr* Find(MrTable* table, uint32_t key) {
    const Place& place = places_[key % kPlaces];
    if (place.key == key && place.table == table) return place.mr;
    return FindAndHold(table, key);
  }
  void Release() {
    if (!held_.empty()) ReleaseHeld();
  }

 private:
  static constexpr size_t kPlaces = 16;
  static constexpr size_t kHeldUsually = 256;

  struct Place {
    uint32_t key = 0;
    const MrTable* table = nullptr;  // null: empty
    Mr* mr = nullptr;
  };

  Mr* FindAndHold(MrTable* table, uint32_t key);
  void ReleaseHeld();

  std::array<Place, kPlaces> places_;
  std::vector<Mr*> held_;  // some of them twice
};

// Where an access went wrong: the two sides name it differently.
enum class AccessFault : uint8_t { kNone, kStag, kBounds, kRights, kPd, kWrap };

// Why `mr`, the region of some key or null, does not belong to `pd`, hold those
// bytes or allow all of `access`. Zero bytes are not for it [iwarp §2.3].
inline AccessFault RangeFault(const Mr* mr, const ibv_pd* pd, uint64_t address,
                              uint64_t bytes, int access) {
  if (mr == nullptr) return AccessFault::kStag;
  if (mr->pd != pd) return AccessFault::kPd;
  if (address + bytes < address) return AccessFault::kWrap;
  if (!mr->Covers(address, bytes)) return AccessFault::kBounds;
  if ((mr->access & access) != access) return AccessFault::kRights;
  return AccessFault::kNone;
}

// As a Terminate says it: for segments of WRITEs and READ responses, and for
// READ requests.
TerminateReason TaggedReason(AccessFault fault);
TerminateReason ReadReason(AccessFault fault);

}  // namespace sluice::iwarp
