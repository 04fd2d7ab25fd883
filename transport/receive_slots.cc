#include "transport/receive_slots.h"

#include <utility>

#include "core/check.h"
#include "core/status_macros.h"
#include "core/units.h"
#include "nvme/sqe.h"

namespace sluice::transport {
namespace {

constexpr uint32_t kSlotsMax = 65536;  // WrTag holds 16 bits of it

}  // namespace

ReceiveSlots::~ReceiveSlots() {
  if (memory_ == nullptr) return;
  memory_->Give(in_capsule_);
  memory_->Give(commands_);
}

absl::Status ReceiveSlots::TakeMemory(MemoryDomain* memory, uint32_t count,
                                      uint32_t in_capsule_bytes) {
  SLUICE_CHECK(memory_ == nullptr);
  SLUICE_CHECK(count <= kSlotsMax);
  memory_ = memory;
  count_ = count;
  in_capsule_bytes_ = in_capsule_bytes;
  SLUICE_ASSIGN_OR_RETURN(commands_,
                          memory->Take(size_t{count} * nvme::kSqeBytes));
  if (in_capsule_bytes == 0) return absl::OkStatus();
  in_capsule_stride_ =
      static_cast<uint32_t>(RoundUp(in_capsule_bytes, kInCapsuleAlignment));
  SLUICE_ASSIGN_OR_RETURN(in_capsule_,
                          memory->Take(size_t{count} * in_capsule_stride_));
  return absl::OkStatus();
}

void ReceiveSlots::SetTag(WrTag tag) {
  slots_.resize(count_);
  for (uint32_t i = 0; i < count_; ++i) {
    const auto number = static_cast<uint16_t>(i);
    Slot& slot = slots_[i];
    tag.slot = number;
    slot.sge[0] = {reinterpret_cast<uint64_t>(command(number)), nvme::kSqeBytes,
                   commands_.lkey};
    slot.sge[1] = {reinterpret_cast<uint64_t>(data(number)), in_capsule_bytes_,
                   in_capsule_.lkey};
    slot.wr.wr_id = tag.Pack();
    slot.wr.next = nullptr;
    slot.wr.sg_list = slot.sge;
    slot.wr.num_sge = static_cast<int>(sge_count());
  }
}

const std::byte* ReceiveSlots::command(uint16_t slot) const {
  return commands_.data + size_t{slot} * nvme::kSqeBytes;
}

std::byte* ReceiveSlots::data(uint16_t slot) const {
  return in_capsule_.data + size_t{slot} * in_capsule_stride_;
}

void ReceiveSlots::Append(uint16_t slot) {
  ibv_recv_wr* wr = &slots_[slot].wr;
  wr->next = nullptr;
  *last_ = wr;
  last_ = &wr->next;
  ++chained_;
}

ibv_recv_wr* ReceiveSlots::TakeChain(uint32_t* chained) {
  *chained = std::exchange(chained_, 0);
  last_ = &first_;
  return std::exchange(first_, nullptr);
}

}  // namespace sluice::transport
