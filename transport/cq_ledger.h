// Why a completion queue cannot overflow: every work request that may be
// outstanding has an entry reserved for its completion. A queue pair of depth
// d reserves cq_depth_factor x d before it is accepted and returns it only when
// every work request is accounted for.
//
// One per CQ, on its reactor. Plain counting; the CQ engine keeps the order.
#pragma once

#include <cstdint>

#include "core/check.h"

namespace sluice::transport {

class CqLedger {
 public:
  // `capacity`: cq->cqe, as the device gave it.
  explicit CqLedger(uint32_t capacity) : capacity_(capacity) {}

  uint32_t capacity() const { return capacity_; }
  uint32_t reserved() const { return reserved_; }
  uint32_t free() const { return capacity_ - reserved_; }
  // Work requests posted whose completion has not been polled.
  uint32_t outstanding() const { return outstanding_; }
  uint32_t outstanding_max() const { return outstanding_max_; }

  // False when there is no room; nothing is changed then.
  bool Reserve(uint32_t entries) {
    if (entries > free()) return false;
    reserved_ += entries;
    return true;
  }
  void Release(uint32_t entries) {
    SLUICE_CHECK(entries <= reserved_);
    reserved_ -= entries;
  }

  void Posted(uint32_t count) {
    outstanding_ += count;
    SLUICE_DCHECK(outstanding_ <= reserved_);
    if (outstanding_ > outstanding_max_) outstanding_max_ = outstanding_;
  }
  void Returned(uint32_t count) {
    SLUICE_CHECK(count <= outstanding_);
    outstanding_ -= count;
  }

 private:
  uint32_t capacity_;
  uint32_t reserved_ = 0;
  uint32_t outstanding_ = 0;
  uint32_t outstanding_max_ = 0;
};

}  // namespace sluice::transport
