#include "transport/iwarp/memory.h"

#include <sched.h>
#include <sys/random.h>

#include "core/check.h"

namespace sluice::iwarp {
namespace {

// Access is short; a thread that holds a pin may have lost its processor.
void WaitForPins(const std::atomic<uint32_t>& pins) {
  while (pins.load(std::memory_order_seq_cst) != 0) sched_yield();
}

uint32_t Mix(uint32_t half, uint32_t secret) {
  const uint32_t mixed = (half + secret) * 0x9e3779b1u;
  return (mixed ^ (mixed >> 15)) & 0xffff;
}

// Tags that peers use for no memory at all: 0, and siw's RTR message 1.
constexpr uint32_t kReservedKeys = 2;

constexpr int kAccessOfPeers = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

}  // namespace

MrTable::MrTable() {
  const ssize_t got = getrandom(secrets_, sizeof(secrets_), 0);
  SLUICE_CHECK(got == sizeof(secrets_));
}

MrTable::~MrTable() {
  for (std::atomic<Chunk*>& chunk : chunks_) delete chunk.load();
}

// A Feistel network over the two halves: one to one, and back.
uint32_t MrTable::Scramble(uint32_t plain) const {
  uint32_t left = plain >> 16;
  uint32_t right = plain & 0xffff;
  for (const uint32_t secret : secrets_) {
    const uint32_t next = left ^ Mix(right, secret);
    left = right;
    right = next;
  }
  return left << 16 | right;
}

uint32_t MrTable::Unscramble(uint32_t key) const {
  uint32_t left = key >> 16;
  uint32_t right = key & 0xffff;
  for (int round = 3; round >= 0; --round) {
    const uint32_t previous = right ^ Mix(left, secrets_[round]);
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

Mr* PinRange(MrTable* table, const ibv_pd* pd, uint32_t key, uint64_t address,
             uint64_t bytes, int access, AccessFault* fault) {
  Mr* mr = table->Pin(key);
  if (mr == nullptr) {
    *fault = AccessFault::kStag;
    return nullptr;
  }
  if (mr->pd != pd) {
    *fault = AccessFault::kPd;
  } else if (address + bytes < address) {
    *fault = AccessFault::kWrap;
  } else if (!mr->Covers(address, bytes)) {
    *fault = AccessFault::kBounds;
  } else if ((mr->access & access) != access) {
    *fault = AccessFault::kRights;
  } else {
    *fault = AccessFault::kNone;
    return mr;
  }
  MrTable::Unpin(mr);
  return nullptr;
}

AccessFault CheckRange(MrTable* table, const ibv_pd* pd, uint32_t key,
                       uint64_t address, uint64_t bytes, int access) {
  AccessFault fault = AccessFault::kNone;
  Mr* mr = PinRange(table, pd, key, address, bytes, access, &fault);
  if (mr != nullptr) MrTable::Unpin(mr);
  return fault;
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
