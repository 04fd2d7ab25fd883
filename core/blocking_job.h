// What a BlockingPool runs: a node in its owner's memory, as a Message is. The
// owner keeps it alive until `work` has told it, in whatever way, of its end.
#pragma once

#include "core/intrusive_list.h"

namespace sluice {

struct BlockingJob : ListNode {
  // On a thread of the pool, which does not touch the job afterwards: the last
  // thing this does may be to give it back to its owner.
  void (*work)(BlockingJob* job) = nullptr;

 private:
  friend class BlockingPool;
  bool queued_ = false;  // under the pool's lock
};

}  // namespace sluice
