// Counter: a statistic that one thread raises and any thread reads.
//
// Raising is a plain add (no locked instruction), since only the owner writes; readers see it a
// little late, never torn.
#pragma once

#include <atomic>
#include <cstdint>

namespace isotherm {

class Counter {
 public:
  void add(uint64_t n = 1) { value_.store(get() + n, std::memory_order_relaxed); }
  // Takes back some of what was added before.
  void subtract(uint64_t n) { value_.store(get() - n, std::memory_order_relaxed); }
  void raise_to(uint64_t value) {
    if (value > get()) value_.store(value, std::memory_order_relaxed);
  }
  // Call it only for maxima, where no harm is done if a write of the owner is lost.
  void clear() { value_.store(0, std::memory_order_relaxed); }
  uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

}  // namespace isotherm
