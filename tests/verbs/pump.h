// Progress without threads: what is Pumped is looked at by every wait, so that
// both ends of a connection get on whichever of them a test waits for.
#pragma once

#include <vector>

#include "absl/time/time.h"
#include "tests/verbs/suite.h"

namespace sluice::verbs {

class Pumped {
 public:
  Pumped();
  virtual ~Pumped();
  Pumped(const Pumped&) = delete;
  Pumped& operator=(const Pumped&) = delete;

  // Takes what there is to take.
  virtual void Pump() = 0;
};

void PumpAll();

// Pumps until `done()`. False when it was not in time.
template <typename Done>
bool Until(Done done, absl::Duration wait = kWait) {
  Deadline deadline(wait);
  do {
    PumpAll();
    if (done()) return true;
  } while (deadline.Nap());
  return false;
}

// For what must not happen: pumps for that long.
inline constexpr absl::Duration kQuiet = absl::Milliseconds(20);
void PumpFor(absl::Duration time = kQuiet);

}  // namespace sluice::verbs
