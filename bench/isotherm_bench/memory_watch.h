// MemoryWatch: the most memory a record takes while the number of records doubles.
//
// A table that grows by doubling looks best just before it grows; so memory a record is looked at
// between half of the records and all of them, and the worst is kept beside the last.
//
// Threads. One owner, which calls `look` every few milliseconds while others insert.
#pragma once

#include <algorithm>
#include <cstdint>

#include "isotherm_bench/process.h"
#include "isotherm_bench/workload.h"

namespace isotherm::bench {

class MemoryWatch {
 public:
  // `pid` 0: nothing can be seen.
  MemoryWatch(pid_t pid, const KeySpace& keys, uint64_t records)
      : pid_(pid),
        keys_(keys),
        step_(std::max<uint64_t>(records / 2 / samples, 1)),
        next_(records - records / 2) {}

  void look() {
    const uint64_t present = keys_.present.load(std::memory_order_relaxed);
    if (pid_ == 0 || present == 0 || present < next_) return;
    next_ = present + step_;
    const auto resident = resident_bytes(pid_);
    if (!resident) return;
    worst_ = std::max(worst_, static_cast<double>(*resident) / static_cast<double>(present));
  }
  double worst() const { return worst_; }

 private:
  static constexpr uint64_t samples = 64;

  pid_t pid_;
  const KeySpace& keys_;
  uint64_t step_;
  uint64_t next_;
  double worst_ = 0;
};

}  // namespace isotherm::bench
