// A histogram of durations or sizes: buckets of powers of two, each cut in 16,
// so that a value is known to 6 %. Recording is a few instructions and never
// allocates. Not thread-safe: written by its reactor, read from a copy.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice {

class Histogram {
 public:
  void Record(uint64_t value, uint64_t count = 1);
  void Merge(const Histogram& other);
  void Clear();
  // Halves every count: old values fade.
  void Decay();

  uint64_t count() const { return count_; }
  uint64_t max() const { return max_; }
  uint64_t sum() const { return sum_; }
  // The value below which `share` (0 to 1) of the recorded ones lie, rounded up
  // to its bucket's end. 0 when empty.
  uint64_t Percentile(double share) const;

 private:
  static constexpr int kSubBits = 4;
  static constexpr int kBuckets = (64 - kSubBits + 1) << kSubBits;
  static size_t Index(uint64_t value);
  static uint64_t UpperEdge(size_t index);

  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0;
  uint64_t sum_ = 0;
  uint64_t max_ = 0;
};

}  // namespace sluice
