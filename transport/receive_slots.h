// Receives of command capsules, numbered: each a work request with memory for
// the 64 bytes of a command and, in a second SGE, for data behind them. Posted
// in chains. Owned by a queue pair, or by the SharedReceives of several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "transport/memory_domain.h"
#include "transport/wr_tag.h"

namespace sluice::transport {

// In-capsule data starts at multiples of this: what O_DIRECT wants of a sector.
inline constexpr uint32_t kInCapsuleAlignment = 512;

class ReceiveSlots {
 public:
  ReceiveSlots() = default;
  // Gives the memory back.
  ~ReceiveSlots();
  ReceiveSlots(const ReceiveSlots&) = delete;
  ReceiveSlots& operator=(const ReceiveSlots&) = delete;

  // `count` of them, at most 65536, with memory of `memory`, which outlives
  // them. Errors: MemoryDomain's.
  absl::Status TakeMemory(MemoryDomain* memory, uint32_t count,
                          uint32_t in_capsule_bytes);
  // What they answer to: `tag`, and each its number.
  void SetTag(WrTag tag);

  uint32_t count() const { return count_; }
  uint32_t sge_count() const { return in_capsule_.data != nullptr ? 2 : 1; }
  const std::byte* command(uint16_t slot) const;
  std::byte* data(uint16_t slot) const;

  // Puts one into the chain that is posted next.
  void Append(uint16_t slot);
  // The chain, and how many are in it; the next one is empty.
  ibv_recv_wr* TakeChain(uint32_t* chained);

 private:
  struct Slot {
    ibv_recv_wr wr;
    ibv_sge sge[2];
  };

  MemoryDomain* memory_ = nullptr;
  uint32_t count_ = 0;
  RegisteredBlock commands_;    // count x 64
  RegisteredBlock in_capsule_;  // count x in_capsule_bytes, rounded up
  uint32_t in_capsule_bytes_ = 0;
  uint32_t in_capsule_stride_ = 0;
  std::vector<Slot> slots_;
  ibv_recv_wr* first_ = nullptr;
  ibv_recv_wr** last_ = &first_;
  uint32_t chained_ = 0;
};

}  // namespace sluice::transport
