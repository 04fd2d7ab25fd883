// Aligned buffers for transfers whose own memory O_DIRECT refuses. Made when a
// device is attached, so that the data path allocates nothing.
//
// Owned by one attached device, home its reactor. Bound: kBounceCount buffers
// of kBounceBytes; who finds none waits in arrival order.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "blockdev/limits.h"
#include "blockdev/slots.h"

namespace sluice::blockdev {

class BouncePool {
 public:
  static absl::StatusOr<std::unique_ptr<BouncePool>> Create(Reactor* reactor);
  ~BouncePool();
  BouncePool(const BouncePool&) = delete;
  BouncePool& operator=(const BouncePool&) = delete;

  // co_await pool.Wait(); then Get() once.
  Slots::Taking Wait() { return slots_.Take(); }
  std::byte* Get();
  void Put(std::byte* buffer);

 private:
  BouncePool(Reactor* reactor, std::byte* memory);

  std::byte* const memory_;
  std::array<std::byte*, kBounceCount> free_;
  size_t free_count_ = kBounceCount;
  Slots slots_;
};

}  // namespace sluice::blockdev
