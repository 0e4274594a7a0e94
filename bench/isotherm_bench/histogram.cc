#include "isotherm_bench/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace isotherm::bench {

size_t Histogram::bucket_of(uint64_t value) {
  if (value < linear_count) return static_cast<size_t>(value);
  const int exponent = 63 - std::countl_zero(value);
  const int shift = exponent - linear_bits;
  return (static_cast<size_t>(shift) + 1) * linear_count +
         static_cast<size_t>((value >> shift) - linear_count);
}

uint64_t Histogram::bucket_end(size_t bucket) {
  if (bucket < linear_count) return bucket;
  const size_t shift = bucket / linear_count - 1;
  const uint64_t first = (linear_count + bucket % linear_count) << shift;
  return first + ((uint64_t{1} << shift) - 1);
}

void Histogram::record(uint64_t value, uint64_t times) {
  buckets_[bucket_of(value)] += times;
  count_ += times;
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
  sum_ += static_cast<double>(value) * static_cast<double>(times);
}

void Histogram::merge(const Histogram& other) {
  for (size_t i = 0; i < bucket_count; ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
}

void Histogram::clear() { *this = Histogram(); }

double Histogram::mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

uint64_t Histogram::percentile(double percent) const {
  if (count_ == 0) return 0;
  const double wanted = std::ceil(percent / 100 * static_cast<double>(count_));
  const uint64_t rank = std::clamp<uint64_t>(static_cast<uint64_t>(wanted), 1, count_);
  uint64_t seen = 0;
  for (size_t i = 0; i < bucket_count; ++i) {
    seen += buckets_[i];
    if (seen >= rank) return std::min(bucket_end(i), max_);
  }
  return max_;
}

}  // namespace isotherm::bench
