// Limits fixed at compile time, and how they relate.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::transport {

// Completions taken from one CQ at a time (CqEngineOptions).
inline constexpr uint32_t kPollBatchMin = 16;
inline constexpr uint32_t kPollBatchMax = 64;
// Such batches of one CQ in a tick.
inline constexpr int kPollRounds = 8;
// CQ events acknowledged at once, at most.
inline constexpr uint32_t kAckBatchMax = 4096;
// Entries of one CQ at most, whatever the device allows.
inline constexpr int kCqEntriesMax = 32768;
// siw maps each queue of a process at an offset of its own, the lowest free
// one, and its library takes this offset for a failure. The first queue of all
// is a CQ of ours, which covers it (siw's entries are of 32 bytes).
inline constexpr size_t kSiwBadMapOffset = 0x90000;
static_assert(size_t{kCqEntriesMax} * 32 > kSiwBadMapOffset);
// Work requests that may wait for the doorbell at the end of the tick.
inline constexpr uint32_t kPostBufferSize = 512;
// Queue pairs of one reactor (16 bits in a WrTag).
inline constexpr uint32_t kQueuePairsMax = 32768;
// Depth of a queue, commands in flight.
inline constexpr uint32_t kQueueDepthMax = 1024;
// Receives that queue pairs of a reactor and device may share, and those beside
// them that are on their way back.
inline constexpr uint32_t kSharedReceivesMax = 30'000;
inline constexpr uint32_t kSharedReceivesSpare = 64;
static_assert(kSharedReceivesMax + kSharedReceivesSpare <= kCqEntriesMax);
static_assert(kSharedReceivesMax + kSharedReceivesSpare <= 65536,
              "WrTag holds 16 bits of a receive slot");
// Remote buffers of one command [spec §2.4, 0x31].
inline constexpr uint32_t kRemoteBuffersMax = 16;
// Sends and WRITEs without a completion of their own at most, and the depth of
// a send queue that can have them.
inline constexpr uint32_t kSilentMax = 64;
inline constexpr uint32_t kSilentSendDepthMin = 64;
static_assert(kSilentSendDepthMin / 2 > kRemoteBuffersMax);
// Data that a device is asked to take inline, at most.
inline constexpr uint32_t kInlineBytesMax = 1024;

// The send queue of a queue pair: (cq_depth_factor - 1) x depth.
inline constexpr uint32_t kCqDepthFactorMin = 2;
inline constexpr uint32_t kCqDepthFactorMax = 4;
// A first capsule that is later than this is taken for lost in the device.
// Long, since a host makes all its connections before it uses the first, and
// must not be asked while it sends: siw, its transmitter busy, answers an RDMA
// READ of nothing with the length of what it last sent (siw_activate_tx leaves
// sge[0] as it was, Linux 6.1 and 6.12), and loses the connection.
inline constexpr int64_t kNudgeDelayNanos = 2'000'000'000;
// Work requests and completions that the flight recorder keeps per CQ.
inline constexpr uint32_t kFlightRecords = 8192;
// Smallest piece of memory handed out, and its alignment (O_DIRECT's).
inline constexpr size_t kExtentMinBytes = 4096;

static_assert(kQueuePairsMax <= 65536, "WrTag holds 16 bits of it");
static_assert((kCqDepthFactorMax - 1) * kQueueDepthMax <= 65536,
              "WrTag holds 16 bits of a send slot");
static_assert(kCqDepthFactorMax * kQueueDepthMax <= kCqEntriesMax,
              "the deepest queue fits one CQ");
static_assert(kRemoteBuffersMax + 1 <= kPostBufferSize,
              "one command's round fits the post buffer");

}  // namespace sluice::transport
