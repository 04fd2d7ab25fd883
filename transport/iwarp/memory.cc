#include "transport/iwarp/memory.h"

#include <sched.h>
#include <sys/random.h>

#include <bit>

#include "core/check.h"

namespace sluice::iwarp {
namespace {

// Access is short; a thread that holds a pin may have lost its processor.
void WaitForPins(const std::atomic<uint32_t>& pins) {
  while (pins.load(std::memory_order_seq_cst) != 0) sched_yield();
}

// 16 bits that nobody foretells who has not the secret: SipHash-1-3 of the half
// and the number of the round.
uint32_t Mix(uint32_t half, uint32_t round, const uint64_t* secret) {
  uint64_t v0 = 0x736f6d6570736575u ^ secret[0];
  uint64_t v1 = 0x646f72616e646f6du ^ secret[1];
  uint64_t v2 = 0x6c7967656e657261u ^ secret[0];
  uint64_t v3 = 0x7465646279746573u ^ secret[1];
  const auto mix = [&] {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  };
  const uint64_t message = uint64_t{4} << 56 | round << 16 | half;
  v3 ^= message;
  mix();
  v0 ^= message;
  v2 ^= 0xff;
  for (int i = 0; i < 3; ++i) mix();
  return static_cast<uint32_t>(v0 ^ v1 ^ v2 ^ v3) & 0xffff;
}

// Tags that peers use for no memory at all: 0, and siw's RTR message 1.
constexpr uint32_t kReservedKeys = 2;

constexpr uint32_t kRounds = 4;

constexpr int kAccessOfPeers = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

}  // namespace

MrTable::MrTable() {
  const ssize_t got = getrandom(secret_, sizeof(secret_), 0);
  SLUICE_CHECK(got == sizeof(secret_));
}

MrTable::~MrTable() {
  for (std::atomic<Chunk*>& chunk : chunks_) delete chunk.load();
}

// A Feistel network over the two halves: one to one, and back. Its rounds are
// those of Luby and Rackoff: from any number of keys nobody learns the next.
uint32_t MrTable::Scramble(uint32_t plain) const {
  uint32_t left = plain >> 16;
  uint32_t right = plain & 0xffff;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const uint32_t next = left ^ Mix(right, round, secret_);
    left = right;
    right = next;
  }
  return left << 16 | right;
}

uint32_t MrTable::Unscramble(uint32_t key) const {
  uint32_t left = key >> 16;
  uint32_t right = key & 0xffff;
  for (uint32_t round = kRounds; round-- > 0;) {
    const uint32_t previous = right ^ Mix(left, round, secret_);
    right = left;
    left = previous;
  }
  return left << 16 | right;
}

MrTable::Slot* MrTable::SlotAt(uint32_t index) const {
  Chunk* chunk = chunks_[index / kChunkSlots].load(std::memory_order_acquire);
  return chunk == nullptr ? nullptr : &chunk->slots[index % kChunkSlots];
}

bool MrTable::Add(Mr* mr) {
  const std::lock_guard lock(mutex_);
  uint32_t index;
  if (free_first_ < free_.size()) {
    index = free_[free_first_++];
    if (free_first_ == free_.size() || free_first_ == kChunkSlots) {
      free_.erase(free_.begin(), free_.begin() + free_first_);
      free_first_ = 0;
    }
  } else {
    if (used_ == kSlotsMax) return false;
    index = used_++;
    std::atomic<Chunk*>& chunk = chunks_[index / kChunkSlots];
    if (chunk.load() == nullptr) {
      chunk.store(new Chunk, std::memory_order_release);
    }
  }
  Slot* slot = SlotAt(index);
  uint32_t key;
  do {
    slot->generation = (slot->generation + 1) % kGenerations;
    key = Scramble(slot->generation << kSlotBits | index);
  } while (key < kReservedKeys);
  mr->lkey = mr->rkey = key;
  mr->handle = index;
  mr->pins = &slot->pins;
  slot->mr.store(mr, std::memory_order_seq_cst);
  return true;
}

void MrTable::Remove(Mr* mr) {
  Slot* slot = SlotAt(mr->handle);
  SLUICE_CHECK(slot->mr.load() == mr);
  slot->mr.store(nullptr, std::memory_order_seq_cst);
  // Who read the pointer before that had counted a pin before.
  WaitForPins(slot->pins);
  const std::lock_guard lock(mutex_);
  free_.push_back(mr->handle);
}

bool MrTable::Invalidate(uint32_t key, const ibv_pd* pd, bool by_peer) {
  Mr* mr = Pin(key);
  if (mr == nullptr) return false;
  // A peer knows the keys of READs' sinks, which others may use, too.
  const bool ours =
      mr->pd == pd && (!by_peer || (mr->access & kAccessOfPeers) != 0);
  if (ours) mr->valid.store(false, std::memory_order_seq_cst);
  // The region may go with this pin; its slot does not.
  const std::atomic<uint32_t>& pins = *mr->pins;
  Unpin(mr);
  if (ours) WaitForPins(pins);
  return ours;
}

Mr* MrTable::Pin(uint32_t key) {
  const uint32_t plain = Unscramble(key);
  Slot* slot = SlotAt(plain & (kSlotsMax - 1));
  if (slot == nullptr) return nullptr;
  slot->pins.fetch_add(1, std::memory_order_seq_cst);
  Mr* mr = slot->mr.load(std::memory_order_seq_cst);
  if (mr != nullptr && mr->rkey == key &&
      mr->valid.load(std::memory_order_seq_cst)) {
    return mr;
  }
  slot->pins.fetch_sub(1, std::memory_order_release);
  return nullptr;
}

Mr* PinCache::FindAndHold(MrTable* table, uint32_t key) {
  Mr* mr = table->Pin(key);
  if (mr == nullptr) return nullptr;
  held_.push_back(mr);
  places_[key % kPlaces] = {key, table, mr};
  return mr;
}

void PinCache::ReleaseHeld() {
  for (Mr* mr : held_) {
    places_[mr->lkey % kPlaces] = Place();
    MrTable::Unpin(mr);
  }
  held_.clear();
}

TerminateReason TaggedReason(AccessFault fault) {
  switch (fault) {
    case AccessFault::kNone:
    case AccessFault::kStag:
    case AccessFault::kRights:
      break;
    case AccessFault::kBounds:
      return kDdpTaggedBounds;
    case AccessFault::kPd:
      return kDdpTaggedStream;
    case AccessFault::kWrap:
      return kDdpTaggedWrap;
  }
  return kDdpTaggedStag;
}

TerminateReason ReadReason(AccessFault fault) {
  switch (fault) {
    case AccessFault::kNone:
    case AccessFault::kStag:
      break;
    case AccessFault::kBounds:
      return kRdmapBounds;
    case AccessFault::kRights:
      return kRdmapAccess;
    case AccessFault::kPd:
      return kRdmapStream;
    case AccessFault::kWrap:
      return kRdmapWrap;
  }
  return kRdmapStag;
}

}  // namespace sluice::iwarp
