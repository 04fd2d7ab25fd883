// Registered memory of a test.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace sluice::verbs {

inline constexpr int kAllAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

// Memory of a peer, for WRITE and READ.
struct Remote {
  uint64_t address = 0;
  uint32_t rkey = 0;
};

class Region {
 public:
  // Zeroed. `pd` outlives it; a registration that fails is a test's failure.
  Region(ibv_pd* pd, size_t length_bytes, int access = kAllAccess);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  // No access from then on; the memory stays.
  void Deregister();

  ibv_mr* mr() const { return mr_; }
  uint32_t lkey() const { return lkey_; }
  uint32_t rkey() const { return rkey_; }
  size_t size() const { return bytes_.size(); }
  // Nobody checks that they lie inside.
  uint64_t Address(size_t offset = 0) const;
  ibv_sge Sge(size_t offset, uint32_t length_bytes) const;
  Remote At(size_t offset) const { return {Address(offset), rkey_}; }

  absl::Span<std::byte> bytes() { return absl::MakeSpan(bytes_); }
  absl::Span<std::byte> bytes(size_t offset, size_t length_bytes) {
    return bytes().subspan(offset, length_bytes);
  }
  void Fill(uint8_t value);
  // Bytes by seed and place; "" or where they are not as FillPattern made them.
  void FillPattern(uint64_t seed, size_t offset, size_t length_bytes);
  std::string Differs(uint64_t seed, size_t offset, size_t length_bytes);
  // "" or where a byte is not `value`.
  std::string DiffersFrom(uint8_t value, size_t offset, size_t length_bytes);

 private:
  std::vector<std::byte> bytes_;
  ibv_mr* mr_ = nullptr;
  uint32_t lkey_ = 0;
  uint32_t rkey_ = 0;
};

}  // namespace sluice::verbs
