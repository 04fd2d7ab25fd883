// Which controllers there are, and where each is at home: hands out controller
// ids round robin, so that none is used again soon [spec §3.2].
//
// Home: the control reactor. Bound: the ids that the protocol has.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nvme/nqn.h"

namespace sluice::target {

class Subsystem;
class TargetShard;

class Registry {
 public:
  // A new id for a controller at home on `home`; 0 when none is left.
  uint16_t Add(TargetShard* home, const Subsystem* subsystem);
  void Remove(uint16_t cntlid);
  // Where it is at home, null when there is none.
  TargetShard* Find(uint16_t cntlid) const;
  // Ids of a subsystem's controllers, ascending.
  std::vector<uint16_t> Of(const Subsystem* subsystem) const;
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    TargetShard* home;
    const Subsystem* subsystem;
  };
  std::map<uint16_t, Entry> entries_;
  uint16_t last_ = 0;
};

}  // namespace sluice::target
