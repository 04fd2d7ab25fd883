// Limits of the provider, fixed at compile time, and how they relate.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/iwarp/mpa.h"
#include "transport/iwarp/rdmap.h"

namespace sluice::iwarp {

// --- what the device says of itself ---
inline constexpr int kQpMax = 65536;
inline constexpr int kQpWrMax = 32768;  // each, sends and receives
inline constexpr int kSgeMax = 16;
inline constexpr int kReadSgeMax = 1;  // a READ names one sink [iwarp §3.4]
inline constexpr int kCqMax = 65536;
inline constexpr int kCqeMax = 1 << 20;
inline constexpr int kMrMax = 1 << 20;
inline constexpr int kPdMax = 65536;
inline constexpr int kSrqMax = 65536;
inline constexpr int kSrqWrMax = 32768;
// READs in flight each way; siw's limit too.
inline constexpr int kReadDepthMax = 128;
inline constexpr uint32_t kInlineMax = 1024;
inline constexpr uint32_t kMessageBytesMax = 0x80000000;

// --- sending ---
// What one system call takes: pieces of memory, and bytes that are copied,
// headers and small payloads.
inline constexpr int kBatchPieces = 256;
inline constexpr uint32_t kBatchText = 64 * 1024;
inline constexpr uint64_t kBatchBytes = 512 * 1024;
// A payload up to this is copied beside its header: cheaper than a piece of
// its own.
inline constexpr uint32_t kCopyMax = 1024;
// Messages up to this, of one piece, have a short way of their own.
inline constexpr uint32_t kSmallMax = 256;
// Batches of one queue pair before others have their turn.
inline constexpr int kSendRounds = 4;
// Work requests posted one by one wait for each other, but not beyond this.
inline constexpr uint32_t kDeferredMax = 704;
inline constexpr uint64_t kDeferredBytes = 128 * 1024;
// Answers to READs before the send queue has a turn.
inline constexpr int kResponsesInRow = 4;

static_assert(kBatchPieces >= kSgeMax + 2, "any segment fits an empty batch");
static_assert(kBatchText >= kHeaderBytesMax + kInlineMax + 8);
static_assert(kSmallMax <= kCopyMax);
static_assert(kBatchText >= kCopyMax + kHeaderBytesMax + 8);

// --- receiving ---
// What one system call reads into the group's buffer.
inline constexpr uint32_t kReceiveBuffer = 64 * 1024;
// A payload of which at least this is still to come is read to where it
// belongs; what comes behind it in the same call is at most kTail.
inline constexpr uint32_t kDirectMin = 16 * 1024;
inline constexpr uint32_t kTail = 512;
// Bytes of one queue pair before others have their turn.
inline constexpr uint64_t kReceiveBudget = 1024 * 1024;
// A header or trailer that is not all there yet.
inline constexpr uint32_t kHeldMax = 64;
static_assert(kHeldMax >= kHeaderBytesMax + 8);

// --- progress ---
// So few connections are read without asking which has something to read.
inline constexpr size_t kDirectSockets = 2;
// But after so many reads that found nothing, epoll is asked, and where others
// are still read only every so many rounds.
inline constexpr uint32_t kColdAfter = 64;
inline constexpr uint32_t kColdRounds = 8;
inline constexpr int kEpollBatch = 64;
// Queue pairs served in one round.
inline constexpr int kServeBatch = 64;
// A CQ that always holds completions is no reason not to look at the sockets:
// every so many polls.
inline constexpr uint32_t kPollsPerLook = 32;

// --- the connection manager ---
inline constexpr int kBacklogMax = 1024;
inline constexpr int kHalfOpenMax = 1024;  // of one listener
// What is accepted, and read, before others have their turn.
inline constexpr int kAcceptBatch = 32;

}  // namespace sluice::iwarp
