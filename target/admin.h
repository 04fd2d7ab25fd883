// Admin commands other than fabrics ones [spec §6]. Served on the controller's
// home reactor, out of the queue's Serve.
#pragma once

#include "core/task.h"
#include "nvme/status.h"
#include "target/controller.h"
#include "target/request.h"

namespace sluice::target {

// How many bytes the command moves, in the direction of its opcode; 0 with an
// error in *status when it cannot be said. Commands without data: 0.
uint32_t AdminDataBytes(const nvme::Sqe& sqe, nvme::Status* status);

// Carries the command out: fills request->buffer() (controller to host) or
// reads it, and sets request->result. Suspends for Async Event Request and
// where another reactor is asked.
Task<nvme::Status> ExecuteAdmin(Controller* controller, Request* request);

}  // namespace sluice::target
