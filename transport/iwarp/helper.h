// The helper thread of programs that block where no progress is made, in
// rdma_cm, in a join, in a sleep, while their peer reads or writes their
// memory. It leaves a group alone as long as somebody else advances it or waits
// for it, and sleeps while it has nothing to watch over.
#pragma once

#include <memory>

namespace sluice::iwarp {

class PollGroup;

// Makes progress for this group from now on, while it lives. Starts the thread
// when it is the first. Thread-safe.
void HelpGroup(const std::shared_ptr<PollGroup>& group);

// Somebody may stop looking after a group, or has left work with one: the
// helper is to look soon. Cheap while it is awake; without a helper, nothing.
void TellHelper();

}  // namespace sluice::iwarp
