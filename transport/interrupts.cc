#include "transport/interrupts.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace sluice::transport {
namespace {

namespace fs = std::filesystem;

// Of a PCI device, by number.
std::set<int> MsiInterrupts(const std::string& folder) {
  std::set<int> numbers;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    int number = 0;
    if (absl::SimpleAtoi(entry.path().filename().string(), &number)) {
      numbers.insert(number);
    }
  }
  return numbers;
}

// Drivers name them: mlx5_comp0@pci:…, mlx4-1@…, bnxt_re-nq-0@…: those whose
// first number in the name is the vector's.
bool IsOfVector(const std::string& name, int vector) {
  const size_t at = name.find('@');
  const std::string own = name.substr(0, at);
  if (!absl::StrContains(own, "comp") && !absl::StrContains(own, "nq") &&
      !absl::StrContains(own, "ceq")) {
    return false;
  }
  const size_t end = own.find_last_of("0123456789");
  if (end == std::string::npos) return false;
  const size_t begin = own.find_last_not_of("0123456789", end) + 1;
  int number = 0;
  return absl::SimpleAtoi(own.substr(begin, end - begin + 1), &number) &&
         number == vector;
}

// "mlx5_comp0@pci:0000:01:00.0": the folder that the kernel names after it.
std::string NameOf(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_directory()) return entry.path().filename();
  }
  return "";
}

}  // namespace

absl::Status MoveInterrupt(const std::string& device, int vector, int cpu,
                           const std::string& root) {
  const std::set<int> numbers = MsiInterrupts(
      absl::StrCat(root, "/sys/class/infiniband/", device, "/device/msi_irqs"));
  for (const int number : numbers) {
    const std::string folder = absl::StrCat(root, "/proc/irq/", number);
    if (!IsOfVector(NameOf(folder), vector)) continue;
    const std::string path = folder + "/smp_affinity_list";
    errno = 0;
    std::ofstream out(path);
    out << cpu;
    out.flush();
    if (out.good()) return absl::OkStatus();
    return absl::ErrnoToStatus(errno == 0 ? EIO : errno, path);
  }
  return absl::NotFoundError(absl::StrCat("no interrupt of completion vector ",
                                          vector, " of ", device,
                                          " in /proc/irq"));
}

}  // namespace sluice::transport
