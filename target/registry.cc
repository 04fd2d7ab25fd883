#include "target/registry.h"

#include "core/check.h"
#include "nvme/limits.h"

namespace sluice::target {

uint16_t Registry::Add(TargetShard* home, const Subsystem* subsystem) {
  for (uint32_t tried = 0; tried < nvme::kCntlidMax; ++tried) {
    last_ = last_ >= nvme::kCntlidMax ? nvme::kCntlidMin
                                      : static_cast<uint16_t>(last_ + 1);
    const auto [entry, added] = entries_.try_emplace(last_);
    if (!added) continue;
    entry->second = Entry{home, subsystem};
    return last_;
  }
  return 0;
}

void Registry::Remove(uint16_t cntlid) {
  SLUICE_CHECK(entries_.erase(cntlid) == 1);
}

TargetShard* Registry::Find(uint16_t cntlid) const {
  const auto found = entries_.find(cntlid);
  return found == entries_.end() ? nullptr : found->second.home;
}

std::vector<uint16_t> Registry::Of(const Subsystem* subsystem) const {
  std::vector<uint16_t> ids;
  for (const auto& [cntlid, entry] : entries_) {
    if (entry.subsystem == subsystem) ids.push_back(cntlid);
  }
  return ids;
}

}  // namespace sluice::target
