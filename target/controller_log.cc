// The error log of a controller: a ring of its last failed commands.
#include "core/check.h"
#include "target/controller.h"
#include "target/target_shard.h"

namespace sluice::target {

void Controller::LogError(const nvme::ErrorEntry& entry) {
  SLUICE_DCHECK_ON(shard_->reactor());
  SLUICE_DCHECK(!entry.status.ok());
  nvme::ErrorEntry* slot = &errors_[error_count_ % kErrorEntries];
  *slot = entry;
  slot->count = ++error_count_;
}

std::vector<nvme::ErrorEntry> Controller::Errors() const {
  SLUICE_DCHECK_ON(shard_->reactor());
  std::vector<nvme::ErrorEntry> entries;
  const uint64_t oldest =
      error_count_ > kErrorEntries ? error_count_ - kErrorEntries : 0;
  for (uint64_t i = error_count_; i > oldest; --i) {
    entries.push_back(errors_[(i - 1) % kErrorEntries]);
  }
  return entries;
}

}  // namespace sluice::target
