// MemoryBudget: the one account that maxmemory is compared with.
//
// Every part tells it the bytes it takes and gives back; `used` is their sum. Items count whole
// chunks, so the account is what the process really holds, not what the payloads add up to.
// Threads. Any; each counter is an atomic, `used` a momentary sum.
#pragma once

#include <atomic>
#include <cstdint>

namespace isotherm {

class MemoryBudget {
 public:
  explicit MemoryBudget(uint64_t limit) : limit_(limit) {}

  // 0: no cap.
  uint64_t limit() const { return limit_; }
  uint64_t used() const {
    const int64_t sum = items.load(std::memory_order_relaxed) +
                        index.load(std::memory_order_relaxed) +
                        buffers.load(std::memory_order_relaxed);
    return sum > 0 ? static_cast<uint64_t>(sum) : 0;
  }
  // True when `bytes` more stay within the cap.
  bool fits(uint64_t bytes) const { return limit_ == 0 || used() + bytes <= limit_; }

  std::atomic<int64_t> items{0};    // chunks of classes, large items; retired ones included
  std::atomic<int64_t> index{0};    // segments, overflow lines
  std::atomic<int64_t> buffers{0};  // of connections

 private:
  const uint64_t limit_;
};

}  // namespace isotherm
