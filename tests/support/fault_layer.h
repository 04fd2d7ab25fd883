// FaultDevices over a namespace of a running target, one on each reactor,
// commanded from the test's thread.
//
//   FaultLayer faults;
//   options.subsystems[0].namespaces[0].layer = faults.layer();
//   …
//   faults.Inject(blockdev::Operation::kRead, {.delay = absl::ZeroDuration(),
//   .hang = true});
//
// Must outlive the target, and is not used once that has stopped.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "blockdev/fault_device.h"
#include "target/options.h"

namespace sluice {

class FaultLayer {
 public:
  target::DeviceLayer layer();

  // On every reactor, one after the other; what is below blocks until it is
  // done there.
  void Inject(blockdev::Operation operation, const blockdev::Fault& fault);
  void Clear();
  void Release();
  // Operations that hang now.
  size_t hanging();

 private:
  struct Entry {
    blockdev::FaultDevice* device;
    Reactor* reactor;
  };
  void OnEach(const std::function<void(blockdev::FaultDevice*)>& function);

  std::mutex mutex_;  // reactors attach at the same time
  std::vector<Entry> entries_;
};

}  // namespace sluice
