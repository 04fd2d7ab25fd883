// Compile-time bounds of blockdev. Sizes in bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::blockdev {

// A transfer that the kernel puts off (EAGAIN, EINTR) is tried this often,
// with a pause in between, before the host is asked to retry.
inline constexpr int kTriesMax = 6;
inline constexpr int kRetryPauseMillis = 1;

// Zeroing and discarding go in pieces, so that nobody waits long behind one,
// and at most this many of them run at once per attached device.
inline constexpr uint64_t kZeroPieceBytes = uint64_t{128} << 20;
inline constexpr uint64_t kDiscardPieceBytes = uint64_t{1} << 30;
inline constexpr uint32_t kSpaceOperationsMax = 2;

// Zeroes that are written where nothing better works.
inline constexpr uint32_t kZeroBufferBytes = 256 << 10;

// Copies for memory that O_DIRECT refuses, per attached device; the pages are
// touched only when used.
inline constexpr uint32_t kBounceCount = 16;
inline constexpr uint32_t kBounceBytes = 128 << 10;

// No device asks for more; one that does is used through the page cache.
inline constexpr uint32_t kBufferAlignmentMax = 4096;

// A ram device clears this much in the reactor's own thread, more elsewhere.
inline constexpr uint64_t kRamInlineBytes = uint64_t{1} << 20;
inline constexpr uint64_t kRamPieceBytes = uint64_t{256} << 20;

static_assert(kBounceBytes % kBufferAlignmentMax == 0);
static_assert(kZeroBufferBytes % kBufferAlignmentMax == 0);
static_assert(kZeroPieceBytes % kBufferAlignmentMax == 0);
static_assert(kDiscardPieceBytes % kBufferAlignmentMax == 0);

}  // namespace sluice::blockdev
