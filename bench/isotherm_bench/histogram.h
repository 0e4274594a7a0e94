// Histogram: how often each latency occurred, in log-linear buckets.
//
// Layout. Values below 128 have a bucket each. Above, every power of two is cut into 128 equal
// buckets, so a bucket is at most 1/128 of its values wide: 7,424 counters cover all of uint64_t.
//
// Invariants. `percentile` answers the largest value its bucket can hold (never more than the
// largest value recorded), so it is at or above the exact percentile and at most 1/128 above it.
// Minimum and maximum are exact.
//
// Threads. One writer; `merge` joins the histograms of several threads when they have ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace isotherm::bench {

class Histogram {
 public:
  static constexpr int linear_bits = 7;
  static constexpr uint64_t linear_count = uint64_t{1} << linear_bits;
  static constexpr size_t bucket_count = (64 - linear_bits + 1) * linear_count;

  Histogram() : buckets_(bucket_count, 0) {}

  void record(uint64_t value, uint64_t times = 1);
  void merge(const Histogram& other);
  void clear();

  uint64_t count() const { return count_; }
  uint64_t min() const { return count_ == 0 ? 0 : min_; }
  uint64_t max() const { return max_; }
  double mean() const;
  // `percent` from 0 to 100; 0 where nothing was recorded.
  uint64_t percentile(double percent) const;

  static size_t bucket_of(uint64_t value);
  // The largest value of a bucket.
  static uint64_t bucket_end(size_t bucket);

 private:
  std::vector<uint64_t> buckets_;
  uint64_t count_ = 0;
  uint64_t min_ = ~uint64_t{0};
  uint64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace isotherm::bench
