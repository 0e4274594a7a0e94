// MemoryBudget: the one account that maxmemory is compared with.
//
// Every part tells it the bytes it takes and gives back; `used` is their sum. Items count whole
// chunks, so the account is what the process really holds, not what the payloads add up to.
//
// Writes of a store that evicts may run over the cap, since what is evicted while a batch runs is
// not free before its end; `fits_over` says how far.
//
// Threads. Any; each counter is an atomic, `used` a momentary sum. The limit may change while
// others read it: a check then goes by the old or the new one.
#pragma once

#include <atomic>
#include <cstdint>

namespace isotherm {

class MemoryBudget {
 public:
  explicit MemoryBudget(uint64_t limit) : limit_(limit) {}

  // 0: no cap.
  uint64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  void set_limit(uint64_t bytes) { limit_.store(bytes, std::memory_order_relaxed); }
  uint64_t used() const { return sum(ahead.load(std::memory_order_relaxed)); }
  // Less the pages made ready ahead, which whoever needs memory gets.
  uint64_t claimed() const { return sum(0); }
  // True when `bytes` more stay within the cap.
  bool fits(uint64_t bytes) const {
    const uint64_t cap = limit();
    return cap == 0 || claimed() + bytes <= cap;
  }
  // The same for a write that may run over the cap. Buffers are left out: whether they have been
  // told of the one that holds this very value is chance.
  bool fits_over(uint64_t bytes) const {
    const uint64_t cap = limit();
    return stored() + bytes <= cap + cap / 16 + most_over;
  }
  // The largest item that fits when all others are gone.
  uint64_t largest_item() const {
    const uint64_t lines = positive(index.load(std::memory_order_relaxed));
    const uint64_t cap = limit();
    return cap > lines ? cap - lines : 0;
  }

  std::atomic<int64_t> items{0};    // chunks of classes, large items; retired ones included
  std::atomic<int64_t> index{0};    // segments, overflow lines
  std::atomic<int64_t> buffers{0};  // of connections and of rounds
  std::atomic<int64_t> ahead{0};    // pages made ready ahead (items/pages_ahead.h)

 private:
  static constexpr uint64_t most_over = 96 << 20;

  // The counters of a moment need not belong together.
  static uint64_t positive(int64_t sum) { return sum > 0 ? static_cast<uint64_t>(sum) : 0; }
  uint64_t sum(int64_t more) const {
    return positive(items.load(std::memory_order_relaxed) + index.load(std::memory_order_relaxed) +
                    buffers.load(std::memory_order_relaxed) + more);
  }
  uint64_t stored() const {
    return positive(items.load(std::memory_order_relaxed) + index.load(std::memory_order_relaxed));
  }

  std::atomic<uint64_t> limit_;
};

}  // namespace isotherm
