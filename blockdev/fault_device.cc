#include "blockdev/fault_device.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace sluice::blockdev {

// Waits until Release().
class FaultDevice::Hang : public Waiter {
 public:
  explicit Hang(FaultDevice* device) : device_(device) {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    frame = handle;
    device_->hanging_.PushBack(this);
    ++device_->hanging_count_;
  }
  void await_resume() const noexcept {}

 private:
  FaultDevice* device_;
};

FaultDevice::FaultDevice(std::unique_ptr<BlockDevice> below, Reactor* reactor)
    : BlockDevice(below->geometry()),
      below_(std::move(below)),
      reactor_(reactor) {}

void FaultDevice::Inject(Operation operation, const Fault& fault) {
  SLUICE_CHECK(fault.nth > 0);
  SLUICE_CHECK(fault.transfer_bytes % geometry_.block_bytes == 0);
  Kind& kind = At(operation);
  kind.armed = true;
  kind.fault = fault;
  kind.since_armed = 0;
}

void FaultDevice::Clear() {
  for (Kind& kind : kinds_) kind.armed = false;
}

void FaultDevice::Release() {
  while (Waiter* waiter = hanging_.PopFront()) {
    --hanging_count_;
    reactor_->Schedule(waiter);
  }
}

Fault FaultDevice::Next(Operation operation) {
  SLUICE_DCHECK_ON(reactor_);
  if (below_->geometry().size_bytes != geometry_.size_bytes) {
    below_->set_size_bytes(geometry_.size_bytes);
  }
  Kind& kind = At(operation);
  ++kind.count;
  if (!kind.armed || ++kind.since_armed < kind.fault.nth) return Fault();
  kind.since_armed = 0;
  kind.armed = kind.fault.repeats;
  ++kind.faults;
  return kind.fault;
}

Task<void> FaultDevice::Suffer(Fault fault) {
  SleepFor pause(reactor_, fault.delay);
  co_await pause;
  if (!fault.hang) co_return;
  Hang hang(this);
  co_await hang;
}

Task<IoResult> FaultDevice::Read(uint64_t offset_bytes, IoBuffer buffer) {
  const Fault fault = Next(Operation::kRead);
  co_await Suffer(fault);
  const bool fails = fault.result != IoResult::kOk;
  if (fails) {
    buffer.length_bytes = std::min(buffer.length_bytes, fault.transfer_bytes);
  }
  const IoResult result = co_await below_->Read(offset_bytes, buffer);
  co_return fails ? fault.result : result;
}

Task<IoResult> FaultDevice::Write(uint64_t offset_bytes, IoBuffer buffer,
                                  bool fua) {
  const Fault fault = Next(Operation::kWrite);
  co_await Suffer(fault);
  const bool fails = fault.result != IoResult::kOk;
  if (fails) {
    buffer.length_bytes = std::min(buffer.length_bytes, fault.transfer_bytes);
  }
  const IoResult result = co_await below_->Write(offset_bytes, buffer, fua);
  co_return fails ? fault.result : result;
}

Task<IoResult> FaultDevice::Flush() {
  const Fault fault = Next(Operation::kFlush);
  co_await Suffer(fault);
  if (fault.result != IoResult::kOk) co_return fault.result;
  const IoResult result = co_await below_->Flush();
  co_return result;
}

Task<IoResult> FaultDevice::WriteZeroes(uint64_t offset_bytes,
                                        uint64_t length_bytes,
                                        bool may_deallocate, bool fua) {
  const Fault fault = Next(Operation::kWriteZeroes);
  co_await Suffer(fault);
  if (fault.result != IoResult::kOk) co_return fault.result;
  const IoResult result = co_await below_->WriteZeroes(
      offset_bytes, length_bytes, may_deallocate, fua);
  co_return result;
}

Task<IoResult> FaultDevice::Discard(uint64_t offset_bytes,
                                    uint64_t length_bytes) {
  const Fault fault = Next(Operation::kDiscard);
  co_await Suffer(fault);
  if (fault.result != IoResult::kOk) co_return fault.result;
  const IoResult result = co_await below_->Discard(offset_bytes, length_bytes);
  co_return result;
}

}  // namespace sluice::blockdev
