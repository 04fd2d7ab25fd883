#include "transport/device_counters.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace sluice::transport {
namespace {

namespace fs = std::filesystem;

class DeviceCountersTest : public testing::Test {
 protected:
  DeviceCountersTest() {
    std::string name = testing::TempDir() + "/counters-XXXXXX";
    root_ = mkdtemp(name.data());
  }
  ~DeviceCountersTest() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root_ + "/" + path).parent_path());
    std::ofstream(root_ + "/" + path) << text;
  }

  std::string root_;
};

TEST_F(DeviceCountersTest, AddsUpTheDevicesPorts) {
  Write("rxe0/ports/1/hw_counters/rcvd_pkts", "7\n");
  Write("rxe0/ports/1/hw_counters/lifespan", "10\n");
  Write("rxe0/ports/1/counters/port_xmit_data", "8\n");
  Write("rxe0/ports/2/counters/port_xmit_data", "9\n");
  Write("rxe0/ports/2/counters/odd", "n/a\n");
  Write("siw0/ports/1/counters/port_xmit_data", "1\n");

  std::map<std::string, uint64_t> counters;
  ReadDeviceCounters("rxe0", &counters, root_);

  const std::map<std::string, uint64_t> wanted = {{"rxe0/port_xmit_data", 17},
                                                  {"rxe0/rcvd_pkts", 7}};
  EXPECT_EQ(counters, wanted);
}

TEST_F(DeviceCountersTest, ADeviceWithoutAnyAddsNothing) {
  std::map<std::string, uint64_t> counters;
  ReadDeviceCounters("iwarp0", &counters, root_);

  EXPECT_TRUE(counters.empty());
}

}  // namespace
}  // namespace sluice::transport
