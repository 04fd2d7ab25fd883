// Each kind of file system by each door to the kernel, for the suites that run
// on all of them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "core/ring.h"
#include "tests/unit/blockdev/device_test_util.h"
#include "tests/unit/core/ring_masks.h"

namespace sluice::blockdev {

// Empty: the folder for temporary files.
using FolderAndDoor = std::tuple<const char*, RingMask>;

inline auto FoldersAndDoors() {
  return testing::Combine(testing::Values("", "/dev/shm"),
                          testing::ValuesIn(kRingDoors));
}

inline std::string FolderOf(const FolderAndDoor& where) {
  const char* const folder = std::get<0>(where);
  return *folder == '\0' ? TempFolder() : folder;
}

inline RingOptions Through(const RingMask& door) {
  RingOptions options;
  options.features = door.features;
  return options;
}

inline RingOptions Through(const FolderAndDoor& where) {
  return Through(std::get<1>(where));
}

inline std::string FolderAndDoorName(
    const testing::TestParamInfo<FolderAndDoor>& info) {
  const char* const folder = std::get<0>(info.param);
  return absl::StrCat(*folder == '\0' ? "Tmpdir" : "Tmpfs",
                      std::get<1>(info.param).name);
}

}  // namespace sluice::blockdev
