// Memory of one connection that the target may read and write. It outlives no
// connection; several may exist at once, each with a key of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nvme/sgl.h"
#include "transport/verbs/verbs_api.h"

namespace sluice::conformance {

class RawMemory {
 public:
  // Zeroed and aligned to a page. `pd` must outlive it.
  static absl::StatusOr<std::unique_ptr<RawMemory>> Create(const VerbsApi& api,
                                                           ibv_pd* pd,
                                                           size_t length_bytes);
  ~RawMemory();
  RawMemory(const RawMemory&) = delete;
  RawMemory& operator=(const RawMemory&) = delete;

  size_t size() const { return length_bytes_; }
  absl::Span<std::byte> bytes() { return {data_, length_bytes_}; }
  absl::Span<std::byte> bytes(size_t offset, size_t length_bytes);
  uint64_t address(size_t offset = 0) const;
  uint32_t rkey() const { return mr_->rkey; }
  uint32_t lkey() const { return mr_->lkey; }
  ibv_mr* mr() const { return mr_; }

  void Fill(uint8_t value);

  // Descriptors of a piece of it; nobody checks that the piece lies inside.
  nvme::KeyedDescriptor Piece(size_t offset, uint32_t length_bytes) const;
  nvme::SglBytes Keyed(size_t offset, uint32_t length_bytes) const;

 private:
  RawMemory(const VerbsApi& api, std::byte* data, size_t length_bytes);

  const VerbsApi& api_;
  std::byte* const data_;
  const size_t length_bytes_;
  ibv_mr* mr_ = nullptr;
};

}  // namespace sluice::conformance
