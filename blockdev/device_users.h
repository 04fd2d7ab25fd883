// Who holds a block device that could not be claimed, for the error message.
#pragma once

#include <sys/types.h>

#include <string>

namespace sluice::blockdev {

// "mounted at /srv", "used by dm-0 md1", or "in use". May block.
std::string DescribeDeviceUsers(dev_t device);

}  // namespace sluice::blockdev
