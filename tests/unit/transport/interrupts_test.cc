#include "transport/interrupts.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace sluice::transport {
namespace {

namespace fs = std::filesystem;

class InterruptsTest : public testing::Test {
 protected:
  InterruptsTest() {
    std::string name = testing::TempDir() + "/irq-XXXXXX";
    root_ = mkdtemp(name.data());
    Add(40, "mlx5_async0@pci:0000:01:00.0");
    Add(41, "mlx5_comp0@pci:0000:01:00.0");
    Add(42, "mlx5_comp1@pci:0000:01:00.0");
  }
  ~InterruptsTest() override { fs::remove_all(root_); }

  void Add(int number, const std::string& name) const {
    const std::string irq = root_ + "/proc/irq/" + std::to_string(number);
    fs::create_directories(irq + "/" + name);
    std::ofstream(irq + "/smp_affinity_list") << "0-7";
    const std::string list =
        root_ + "/sys/class/infiniband/mlx5_0/device/msi_irqs";
    fs::create_directories(list);
    std::ofstream(list + "/" + std::to_string(number)) << "msix";
  }
  std::string Affinity(int number) const {
    std::ostringstream text;
    text << std::ifstream(root_ + "/proc/irq/" + std::to_string(number) +
                          "/smp_affinity_list")
                .rdbuf();
    return text.str();
  }

  std::string root_;
};

TEST_F(InterruptsTest, MovesThatOfTheVectorAndNoOther) {
  EXPECT_TRUE(MoveInterrupt("mlx5_0", 1, 5, root_).ok());

  EXPECT_EQ(Affinity(40), "0-7");
  EXPECT_EQ(Affinity(41), "0-7");
  EXPECT_EQ(Affinity(42), "5");
}

TEST_F(InterruptsTest, AVectorOrDeviceWithoutOneIsNotFound) {
  EXPECT_EQ(MoveInterrupt("mlx5_0", 9, 5, root_).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(MoveInterrupt("siw0", 0, 5, root_).code(),
            absl::StatusCode::kNotFound);
}

TEST_F(InterruptsTest, SaysWhichFileCouldNotBeWritten) {
  fs::remove(root_ + "/proc/irq/41/smp_affinity_list");
  fs::create_directories(root_ + "/proc/irq/41/smp_affinity_list");

  const absl::Status status = MoveInterrupt("mlx5_0", 0, 5, root_);

  EXPECT_NE(status.message().find("/proc/irq/41/smp_affinity_list"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice::transport
