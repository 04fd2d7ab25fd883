#include "blockdev/queue_attributes.h"

#include <sys/sysmacros.h>

#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace sluice::blockdev {

std::string QueueText(dev_t device, const char* name) {
  const std::string folder =
      absl::StrCat("/sys/dev/block/", major(device), ":", minor(device));
  for (const char* const queue : {"/queue/", "/../queue/"}) {
    std::ifstream file(absl::StrCat(folder, queue, name));
    std::string text;
    if (file && std::getline(file, text)) return text;
  }
  return std::string();
}

uint64_t QueueNumber(dev_t device, const char* name) {
  uint64_t value = 0;
  const std::string text = QueueText(device, name);
  return absl::SimpleAtoi(absl::string_view(text), &value) ? value : 0;
}

}  // namespace sluice::blockdev
