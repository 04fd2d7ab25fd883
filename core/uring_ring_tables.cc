// The ring's tables of fixed files and buffers: set-up, not the hot path.
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <iterator>

#include "core/check.h"
#include "core/log.h"
#include "core/uring_ring.h"

namespace sluice {
namespace {

constexpr uint32_t kTableMax = 64 * 64;

// Marks `count` slots free.
void FillBitmap(uint64_t (&bitmap)[64], uint32_t count) {
  std::fill(std::begin(bitmap), std::end(bitmap), 0);
  for (uint32_t i = 0; i < count; ++i)
    bitmap[i / 64] |= uint64_t{1} << (i % 64);
}

int TakeSlot(uint64_t (&bitmap)[64]) {
  for (size_t word = 0; word < 64; ++word) {
    if (bitmap[word] == 0) continue;
    const int bit = std::countr_zero(bitmap[word]);
    bitmap[word] &= bitmap[word] - 1;
    return static_cast<int>(word) * 64 + bit;
  }
  return -1;
}

void FreeSlot(uint64_t (&bitmap)[64], int slot) {
  const auto index = static_cast<size_t>(slot);
  SLUICE_CHECK((bitmap[index / 64] >> (index % 64) & 1) == 0);
  bitmap[index / 64] |= uint64_t{1} << (index % 64);
}

// Once per process: it is the limit, for every ring.
void WarnOnce(size_t bytes, int error) {
  static std::atomic<bool> warned{false};
  if (warned.exchange(true)) return;
  SLUICE_LOG(kWarning)
      << "io_uring cannot register buffers and goes on without, a little "
         "slower; the limit on locked memory is too low (ulimit -l, "
         "LimitMEMLOCK=)"
      << KV("bytes", bytes) << KV("error", std::strerror(error));
}

}  // namespace

void UringRing::RegisterTables(const RingOptions& options) {
  SLUICE_CHECK(options.files <= kTableMax);
  SLUICE_CHECK(options.buffers <= kTableMax);
  FillBitmap(free_files_, 0);
  FillBitmap(free_buffers_, 0);
  if (features_ & kFixedFiles) {
    if (io_uring_register_files_sparse(&ring_, options.files) == 0) {
      FillBitmap(free_files_, options.files);
    } else {
      features_ &= ~uint32_t{kFixedFiles};
    }
  }
  if (features_ & kFixedBuffers) {
    if (io_uring_register_buffers_sparse(&ring_, options.buffers) == 0) {
      FillBitmap(free_buffers_, options.buffers);
    } else {
      features_ &= ~uint32_t{kFixedBuffers};
    }
  }
}

RingFile UringRing::AddFile(int fd) {
  const int slot = TakeSlot(free_files_);
  if (slot < 0) return RingFile{fd, false};
  const int rc = io_uring_register_files_update(
      &ring_, static_cast<unsigned>(slot), &fd, 1);
  if (rc == 1) return RingFile{slot, true};
  FreeSlot(free_files_, slot);
  return RingFile{fd, false};
}

void UringRing::RemoveFile(RingFile file) {
  if (!file.fixed) return;
  int none = -1;
  io_uring_register_files_update(&ring_, static_cast<unsigned>(file.fd), &none,
                                 1);
  FreeSlot(free_files_, file.fd);
}

int UringRing::AddBuffer(void* address, size_t bytes) {
  const int slot = TakeSlot(free_buffers_);
  if (slot < 0) return -1;
  const iovec buffer = {address, bytes};
  const __u64 tag = 0;
  const int rc = io_uring_register_buffers_update_tag(
      &ring_, static_cast<unsigned>(slot), &buffer, &tag, 1);
  if (rc == 1) return slot;
  FreeSlot(free_buffers_, slot);
  WarnOnce(bytes, -rc);
  return -1;
}

void UringRing::RemoveBuffer(int index) {
  if (index < 0) return;
  const iovec none = {nullptr, 0};
  const __u64 tag = 0;
  io_uring_register_buffers_update_tag(&ring_, static_cast<unsigned>(index),
                                       &none, &tag, 1);
  FreeSlot(free_buffers_, index);
}

}  // namespace sluice
