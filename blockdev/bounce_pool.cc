#include "blockdev/bounce_pool.h"

#include <sys/mman.h>

#include <cerrno>

#include "absl/status/status.h"

namespace sluice::blockdev {
namespace {

constexpr size_t kPoolBytes = size_t{kBounceCount} * kBounceBytes;

}  // namespace

absl::StatusOr<std::unique_ptr<BouncePool>> BouncePool::Create(
    Reactor* reactor) {
  void* memory = mmap(nullptr, kPoolBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, "mmap of the bounce buffers");
  }
  return std::unique_ptr<BouncePool>(
      new BouncePool(reactor, static_cast<std::byte*>(memory)));
}

BouncePool::BouncePool(Reactor* reactor, std::byte* memory)
    : memory_(memory), slots_(reactor, kBounceCount) {
  for (size_t i = 0; i < kBounceCount; ++i) {
    free_[i] = memory_ + i * kBounceBytes;
  }
}

BouncePool::~BouncePool() {
  SLUICE_CHECK(free_count_ == kBounceCount);
  munmap(memory_, kPoolBytes);
}

std::byte* BouncePool::Get() {
  SLUICE_CHECK(free_count_ > 0);
  return free_[--free_count_];
}

void BouncePool::Put(std::byte* buffer) {
  SLUICE_CHECK(free_count_ < kBounceCount);
  free_[free_count_++] = buffer;
  slots_.Give();
}

}  // namespace sluice::blockdev
