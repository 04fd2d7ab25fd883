#include "transport/device_counters.h"

#include <filesystem>
#include <fstream>

namespace sluice::transport {

void ReadDeviceCounters(const std::string& device,
                        std::map<std::string, uint64_t>* out,
                        const std::string& root) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::map<std::string, uint64_t> sums;
  for (const auto& port :
       fs::directory_iterator(fs::path(root) / device / "ports", error)) {
    for (const char* group : {"counters", "hw_counters"}) {
      std::error_code none;
      for (const auto& file :
           fs::directory_iterator(port.path() / group, none)) {
        uint64_t value = 0;
        // Some cannot be read, "lifespan" is no counter.
        if (file.path().filename() == "lifespan") continue;
        if (!(std::ifstream(file.path()) >> value)) continue;
        sums[fs::path(device) / file.path().filename()] += value;
      }
    }
  }
  for (const auto& [name, value] : sums) (*out)[name] = value;
}

}  // namespace sluice::transport
