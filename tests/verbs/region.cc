#include "tests/verbs/region.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/conformance/pattern.h"
#include "tests/verbs/suite.h"

namespace sluice::verbs {

Region::Region(ibv_pd* pd, size_t length_bytes, int access)
    : bytes_(length_bytes) {
  mr_ = Api().reg_mr(pd, bytes_.data(), length_bytes, access);
  EXPECT_NE(mr_, nullptr) << "ibv_reg_mr of " << length_bytes;
  if (mr_ == nullptr) return;
  lkey_ = mr_->lkey;
  rkey_ = mr_->rkey;
}

Region::~Region() { Deregister(); }

void Region::Deregister() {
  if (mr_ == nullptr) return;
  EXPECT_EQ(Api().dereg_mr(mr_), 0);
  mr_ = nullptr;
}

uint64_t Region::Address(size_t offset) const {
  return reinterpret_cast<uint64_t>(bytes_.data()) + offset;
}

ibv_sge Region::Sge(size_t offset, uint32_t length_bytes) const {
  return {.addr = Address(offset), .length = length_bytes, .lkey = lkey_};
}

void Region::Fill(uint8_t value) {
  std::fill(bytes_.begin(), bytes_.end(), std::byte{value});
}

void Region::FillPattern(uint64_t seed, size_t offset, size_t length_bytes) {
  conformance::FillPattern(seed, bytes(offset, length_bytes));
}

std::string Region::Differs(uint64_t seed, size_t offset, size_t length_bytes) {
  return conformance::DiffersFromPattern(seed, bytes(offset, length_bytes));
}

std::string Region::DiffersFrom(uint8_t value, size_t offset,
                                size_t length_bytes) {
  return conformance::DiffersFrom(value, bytes(offset, length_bytes));
}

}  // namespace sluice::verbs
