// A layer over another device that makes it fail: the n-th read or every n-th,
// an error now or after a while, a transfer torn in the middle, an operation
// that hangs until it is released. For tests of everything above.
//
// Owns the device below; home its reactor. Bound: one fault per kind of
// operation at a time.
#pragma once

#include <array>
#include <memory>

#include "absl/time/time.h"
#include "blockdev/block_device.h"

namespace sluice::blockdev {

enum class Operation : uint8_t {
  kRead,
  kWrite,
  kFlush,
  kWriteZeroes,
  kDiscard
};

// What happens to an operation. In this order: it waits for the delay, hangs
// until Release(), moves the first transfer_bytes, and ends with the result.
struct Fault {
  uint64_t nth = 1;     // which one from now on, counted from 1
  bool repeats = true;  // and every nth after it
  // kOk: the operation is carried out and only its time changes.
  IoResult result = IoResult::kOk;
  // Of a failing read or write: whole blocks that are moved all the same.
  uint32_t transfer_bytes = 0;
  absl::Duration delay;
  bool hang = false;
};

class FaultDevice final : public BlockDevice {
 public:
  FaultDevice(std::unique_ptr<BlockDevice> below, Reactor* reactor);

  // Replaces the fault of this kind; the count for `nth` starts anew.
  void Inject(Operation operation, const Fault& fault);
  // No more faults. What hangs goes on hanging.
  void Clear();
  // Lets everything go on that hangs now.
  void Release();

  // Operations begun, and those that met a fault.
  uint64_t count(Operation operation) const { return At(operation).count; }
  uint64_t faults(Operation operation) const { return At(operation).faults; }
  size_t hanging() const { return hanging_count_; }

  Task<IoResult> Read(uint64_t offset_bytes, IoBuffer buffer) override;
  Task<IoResult> Write(uint64_t offset_bytes, IoBuffer buffer,
                       bool fua) override;
  Task<IoResult> Flush() override;
  Task<IoResult> WriteZeroes(uint64_t offset_bytes, uint64_t length_bytes,
                             bool may_deallocate, bool fua) override;
  Task<IoResult> Discard(uint64_t offset_bytes, uint64_t length_bytes) override;

 private:
  struct Kind {
    bool armed = false;
    Fault fault;
    uint64_t since_armed = 0;
    uint64_t count = 0;
    uint64_t faults = 0;
  };
  class Hang;

  Kind& At(Operation operation) {
    return kinds_[static_cast<size_t>(operation)];
  }
  const Kind& At(Operation operation) const {
    return kinds_[static_cast<size_t>(operation)];
  }
  // Counts the operation; what happens to it, kOk without delay if nothing.
  Fault Next(Operation operation);
  Task<void> Suffer(Fault fault);

  const std::unique_ptr<BlockDevice> below_;
  Reactor* const reactor_;
  std::array<Kind, 5> kinds_;
  IntrusiveList<Waiter> hanging_;
  size_t hanging_count_ = 0;
};

}  // namespace sluice::blockdev
