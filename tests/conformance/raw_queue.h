// An NVMe queue on a RawConnection, with registered memory for its data:
// numbers commands, puts in-capsule data behind them, waits for the answer.
// Depth, sizes and every byte are the caller's.
//
// Owned by one thread, blocking as RawConnection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nvme/connect.h"
#include "nvme/private_data.h"
#include "nvme/sqe.h"
#include "tests/conformance/raw_connection.h"
#include "tests/conformance/raw_host.h"
#include "tests/conformance/raw_memory.h"

namespace sluice::conformance {

struct RawQueueOptions {
  nvme::ConnectRequest request;     // as private data, unless
  bool sends_private_data = false;  // these bytes are sent instead
  Bytes private_data;
  uint32_t in_capsule_bytes = 0;  // of what this client sends at most
  size_t data_bytes = 64 * 1024;
  uint8_t responder_resources = 16;
  uint32_t extra_sends = 2;  // commands in flight beyond the depth
  bool has_channel = false;  // of completions
  uint32_t receives = 0;     // fewer than commands in flight; 0: as many
  uint8_t rnr_retry_count = 7;

  // What Linux asks for [spec §1.2].
  static RawQueueOptions Admin();
  static RawQueueOptions Io(uint16_t qid, uint32_t depth, uint16_t cntlid);
};

// A Connect command that may be wrong in any field.
struct RawConnect {
  nvme::ConnectCommand command;
  Bytes data;  // usually 1024
  bool in_capsule = false;
  // The keyed descriptor's length; the data's by default.
  uint32_t sgl_bytes = nvme::kConnectDataBytes;

  // A right one, for the queue that `request` announced.
  static RawConnect For(const RawHost& host,
                        const nvme::ConnectRequest& request, uint16_t cntlid);
};

// First capsules sent over iWARP, and those sent anew on another connection.
struct FirstCapsules {
  uint64_t sent_count = 0;
  uint64_t lost_count = 0;
};
// Of this process; tests run one by one.
FirstCapsules& IwarpFirstCapsules();

class RawQueue {
 public:
  // The queue pair, ready to connect.
  static absl::StatusOr<std::unique_ptr<RawQueue>> Open(
      const RawHost& host, const RawQueueOptions& options);

  RawConnection& connection() { return *connection_; }
  RawMemory& data() { return *data_; }
  uint32_t depth() const { return options_.request.queue_depth(); }
  uint16_t qid() const { return options_.request.qid; }
  const RawQueueOptions& options() const { return options_; }

  // Sends the command with the next cid and these bytes behind it; returns the
  // cid.
  absl::StatusOr<uint16_t> Submit(nvme::Sqe sqe,
                                  absl::Span<const std::byte> in_capsule = {});
  // The same, and the response.
  absl::StatusOr<RawResponse> Execute(
      nvme::Sqe sqe, absl::Span<const std::byte> in_capsule = {},
      absl::Duration wait = kWait);

  absl::StatusOr<RawResponse> Connect(const RawConnect& connect);

  // Sends the first capsule of a connection and waits for what comes of it,
  // for so long. Over siw, which may lose sight of it [tools/lab/README.md],
  // anew on another connection when the answer is late: as a host does, and
  // counted. Memory and connection are then other ones.
  using SendFirst = std::function<absl::StatusOr<RawResponse>(absl::Duration)>;
  absl::StatusOr<RawResponse> First(const SendFirst& send);

  // Blocks at data() + offset, over a keyed descriptor.
  nvme::Sqe BlockSqe(nvme::IoOpcode opcode, uint32_t nsid, uint64_t slba,
                     uint32_t block_count, uint32_t block_bytes,
                     size_t offset = 0) const;

 private:
  RawQueue(const RawHost& host, const RawQueueOptions& options)
      : host_(host), options_(options) {}
  // A connection that was not asked for yet, and its memory.
  absl::Status OpenConnection();

  const RawHost host_;
  const RawQueueOptions options_;
  std::unique_ptr<RawConnection> connection_;
  std::unique_ptr<RawMemory> data_;  // dies before the connection's PD
  uint16_t next_cid_ = 0;
};

}  // namespace sluice::conformance
