#include "blockdev/device_users.h"

#include <dirent.h>
#include <sys/sysmacros.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice::blockdev {
namespace {

// Where it is mounted, empty when nowhere.
// Lines: id parent MAJ:MIN root mountpoint … [proc(5)]
std::string MountPoint(const std::string& number) {
  std::ifstream mounts("/proc/self/mountinfo");
  std::string line;
  while (std::getline(mounts, line)) {
    std::istringstream fields(line);
    std::string id, parent, device, root, mount_point;
    fields >> id >> parent >> device >> root >> mount_point;
    if (device == number) return mount_point;
  }
  return std::string();
}

// Devices made of this one: device mapper, md.
std::vector<std::string> Holders(const std::string& number) {
  std::vector<std::string> names;
  const std::string path = absl::StrCat("/sys/dev/block/", number, "/holders");
  DIR* const folder = opendir(path.c_str());
  if (folder == nullptr) return names;
  while (const dirent* const entry = readdir(folder)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  closedir(folder);
  return names;
}

}  // namespace

std::string DescribeDeviceUsers(dev_t device) {
  const std::string number = absl::StrCat(major(device), ":", minor(device));
  const std::string mount_point = MountPoint(number);
  if (!mount_point.empty()) return absl::StrCat("mounted at ", mount_point);
  const std::vector<std::string> holders = Holders(number);
  if (!holders.empty()) {
    return absl::StrCat("used by ", absl::StrJoin(holders, " "));
  }
  return "claimed by another export or program, or one of its partitions is";
}

}  // namespace sluice::blockdev
