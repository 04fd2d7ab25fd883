// How the backend's results become statuses of the protocol, in one place.
#pragma once

#include "blockdev/block_device.h"
#include "nvme/status.h"

namespace sluice::target {

// DNR is set on what would fail again, never on transient trouble [spec §7.9].
nvme::Status ToStatus(blockdev::IoResult result);

}  // namespace sluice::target
