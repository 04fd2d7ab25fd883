// The helper thread of programs that block where no progress is made, in
// rdma_cm, in a join, in a sleep, while their peer reads or writes their
// memory. It leaves a group alone as long as somebody else advances it.
#pragma once

#include <memory>

namespace sluice::iwarp {

class PollGroup;

// Makes progress for this group from now on, while it lives. Starts the thread
// when it is the first. Thread-safe.
void HelpGroup(const std::shared_ptr<PollGroup>& group);

}  // namespace sluice::iwarp
