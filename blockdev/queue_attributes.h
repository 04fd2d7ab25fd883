// What the kernel tells of a block device's queue in sysfs. May block.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace sluice::blockdev {

// The file `name` of the device's queue, without the line's end; a partition
// has its disk's. Empty when there is none.
std::string QueueText(dev_t device, const char* name);

// The same as a number, 0 when there is none.
uint64_t QueueNumber(dev_t device, const char* name);

}  // namespace sluice::blockdev
