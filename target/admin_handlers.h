// The admin commands one by one, for admin.cc alone. Each fills or reads
// request->buffer(), whose size is what its …Bytes() function said, sets
// request->result and returns the status. On the controller's home reactor; no
// other command runs meanwhile unless it suspends.
#pragma once

#include <cstdint>

#include "core/task.h"
#include "nvme/admin_command.h"
#include "nvme/status.h"
#include "target/controller.h"
#include "target/request.h"

namespace sluice::target {

// [spec §6.2], always 4096 bytes. Suspends for lists of controllers, which the
// control reactor knows.
Task<nvme::Status> Identify(Controller* controller, Request* request);

// [spec §6.6]. Suspends for the SMART log, whose counts the I/O queues keep.
Task<nvme::Status> GetLogPage(Controller* controller, Request* request);

// [spec §6.7]. Bytes of data that go with a feature, 0 for most.
uint32_t SetFeaturesBytes(uint8_t fid);
uint32_t GetFeaturesBytes(const nvme::GetFeaturesCommand& command);
nvme::Status SetFeatures(Controller* controller, Request* request);
nvme::Status GetFeatures(Controller* controller, Request* request);

}  // namespace sluice::target
