// Counter: a statistic that one thread raises and any thread reads.
//
// Raising is a plain add (no locked instruction), since only the owner writes.
#pragma once

#include <atomic>
#include <cstdint>

namespace isotherm {

class Counter {
 public:
  void add(uint64_t n) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

}  // namespace isotherm
