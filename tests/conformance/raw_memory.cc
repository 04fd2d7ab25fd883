#include "tests/conformance/raw_memory.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace sluice::conformance {
namespace {

constexpr size_t kPageBytes = 4096;

}  // namespace

absl::StatusOr<std::unique_ptr<RawMemory>> RawMemory::Create(
    const VerbsApi& api, ibv_pd* pd, size_t length_bytes) {
  const size_t rounded = (length_bytes + kPageBytes - 1) & ~(kPageBytes - 1);
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kPageBytes, rounded));
  SLUICE_CHECK(data != nullptr);
  std::memset(data, 0, rounded);
  std::unique_ptr<RawMemory> memory(new RawMemory(api, data, length_bytes));

  const int access =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  // Where the device has memory windows, they may lie in it.
  memory->mr_ = api.reg_mr(pd, data, length_bytes, access | IBV_ACCESS_MW_BIND);
  if (memory->mr_ == nullptr) {
    memory->mr_ = api.reg_mr(pd, data, length_bytes, access);
  }
  if (memory->mr_ == nullptr) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("ibv_reg_mr of ", length_bytes, " bytes"));
  }
  return memory;
}

RawMemory::RawMemory(const VerbsApi& api, std::byte* data, size_t length_bytes)
    : api_(api), data_(data), length_bytes_(length_bytes) {}

RawMemory::~RawMemory() {
  if (mr_ != nullptr) SLUICE_CHECK(api_.dereg_mr(mr_) == 0);
  std::free(data_);
}

absl::Span<std::byte> RawMemory::bytes(size_t offset, size_t length_bytes) {
  SLUICE_CHECK(offset + length_bytes <= length_bytes_);
  return {data_ + offset, length_bytes};
}

uint64_t RawMemory::address(size_t offset) const {
  return reinterpret_cast<uint64_t>(data_) + offset;
}

void RawMemory::Fill(uint8_t value) {
  std::memset(data_, value, length_bytes_);
}

nvme::KeyedDescriptor RawMemory::Piece(size_t offset,
                                       uint32_t length_bytes) const {
  return {
      .address = address(offset), .length_bytes = length_bytes, .key = rkey()};
}

nvme::SglBytes RawMemory::Keyed(size_t offset, uint32_t length_bytes) const {
  return nvme::EncodeKeyed(Piece(offset, length_bytes), /*invalidate=*/false);
}

}  // namespace sluice::conformance
