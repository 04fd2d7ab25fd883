#include "tests/support/fault_layer.h"

#include <future>
#include <memory>
#include <utility>

#include "core/message.h"

namespace sluice {
namespace {

struct Call : Message {
  std::function<void()> function;
  std::promise<void> done;
};

void RunOn(Reactor* reactor, std::function<void()> function) {
  Call call;
  call.function = std::move(function);
  call.run = [](Message* message) {
    auto* self = static_cast<Call*>(message);
    self->function();
    self->done.set_value();
  };
  auto done = call.done.get_future();
  reactor->Post(&call);
  done.wait();
}

}  // namespace

target::DeviceLayer FaultLayer::layer() {
  return
      [this](std::unique_ptr<blockdev::BlockDevice> below, Reactor* reactor) {
        auto device =
            std::make_unique<blockdev::FaultDevice>(std::move(below), reactor);
        const std::lock_guard lock(mutex_);
        entries_.push_back({device.get(), reactor});
        return device;
      };
}

void FaultLayer::Inject(blockdev::Operation operation,
                        const blockdev::Fault& fault) {
  OnEach(
      [&](blockdev::FaultDevice* device) { device->Inject(operation, fault); });
}

void FaultLayer::Clear() {
  OnEach([](blockdev::FaultDevice* device) { device->Clear(); });
}

void FaultLayer::Release() {
  OnEach([](blockdev::FaultDevice* device) { device->Release(); });
}

size_t FaultLayer::hanging() {
  size_t count = 0;
  OnEach([&](blockdev::FaultDevice* device) { count += device->hanging(); });
  return count;
}

void FaultLayer::OnEach(
    const std::function<void(blockdev::FaultDevice*)>& function) {
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    RunOn(entry.reactor, [&] { function(entry.device); });
  }
}

}  // namespace sluice
