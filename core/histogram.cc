#include "core/histogram.h"

#include <algorithm>
#include <bit>

namespace sluice {

size_t Histogram::Index(uint64_t value) {
  constexpr uint64_t kLinear = uint64_t{1} << kSubBits;
  if (value < kLinear) return static_cast<size_t>(value);
  const int shift = static_cast<int>(std::bit_width(value)) - 1 - kSubBits;
  const uint64_t sub = (value >> shift) - kLinear;
  return static_cast<size_t>((static_cast<uint64_t>(shift) + 1) * kLinear +
                             sub);
}

uint64_t Histogram::UpperEdge(size_t index) {
  constexpr size_t kLinear = size_t{1} << kSubBits;
  if (index < kLinear) return index;
  const size_t shift = index / kLinear - 1;
  const uint64_t base = (kLinear + index % kLinear) << shift;
  return base + ((uint64_t{1} << shift) - 1);
}

void Histogram::Record(uint64_t value, uint64_t count) {
  buckets_[Index(value)] += count;
  count_ += count;
  sum_ += value * count;
  max_ = std::max(max_, value);
}

void Histogram::Merge(const Histogram& other) {
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
}

void Histogram::Clear() { *this = Histogram(); }

void Histogram::Decay() {
  count_ = 0;
  for (uint64_t& bucket : buckets_) {
    bucket /= 2;
    count_ += bucket;
  }
  sum_ /= 2;
  if (count_ == 0) Clear();
}

uint64_t Histogram::Percentile(double share) const {
  if (count_ == 0) return 0;
  const double wanted = share * static_cast<double>(count_);
  uint64_t seen = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (buckets_[i] > 0 && static_cast<double>(seen) >= wanted) {
      return std::min(UpperEdge(i), max_);
    }
  }
  return max_;
}

}  // namespace sluice
