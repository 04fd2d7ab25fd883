// A command in the target: what it asked for, where its data is, what it is
// answered. Lives in the frame of Queue::Serve, from capsule to reply.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "blockdev/block_device.h"
#include "nvme/opcodes.h"
#include "nvme/sgl.h"
#include "nvme/sqe.h"
#include "nvme/status.h"
#include "transport/extent_pool.h"
#include "transport/queue_pair.h"

namespace sluice::target {

struct Request {
  explicit Request(transport::CommandContext* context) : command(context) {}
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  const nvme::Sqe& sqe() const { return command->sqe; }

  // The data, once it is there: `bytes` long. For a command from the host to
  // the controller, what it sent; for the other direction, what Execute fills.
  // In the capsule, in the extent, or for a read where they always are.
  std::byte* data_start() const {
    return extent.empty() ? command->in_capsule + data.offset_bytes
                          : extent.data;
  }
  absl::Span<std::byte> buffer() const {
    return bytes == 0 ? absl::Span<std::byte>()
                      : absl::MakeSpan(data_start(), bytes);
  }
  blockdev::IoBuffer io_buffer() const {
    return blockdev::IoBuffer{data_start(), bytes, extent.ring_buffer};
  }

  transport::CommandContext* const command;
  nvme::DataPointer data;
  nvme::Direction direction = nvme::Direction::kNone;
  uint32_t bytes = 0;        // the command moves; at most data.total_bytes()
  transport::Extent extent;  // holds them, unless they are in the capsule
  bool in_place = false;     // the extent is the namespace's own memory
  uint64_t result = 0;       // DW0 and DW1 of the response
  bool close_after = false;  // Disconnect: the connection ends with the reply
};

}  // namespace sluice::target
