// MemoryBudget: the one account that maxmemory is compared with.
//
// Every part reports the bytes that it takes and gives back; `used` is their sum. Items count as
// whole chunks, so the account is what the process really holds, not the sum of the payloads.
//
// A large value that was replaced stays in memory until its readers have gone. Its bytes are
// reported as `passing` before the memory of the new value is taken: they claim nothing, and nobody
// evicts for them. What is claimed is one number, not a sum of several: a thread that added several
// up in the middle of a change would see many bytes twice, and evict as many.
//
// Writes of a store that evicts may run over the cap, since memory that is evicted or replaced
// while a batch runs is not free before its end; `room_over` says how far. Several batches may see
// the same room there, so each is admitted before it runs, for as many bytes as it may take: the
// others see less room, and it finds that much whatever they take. A batch that must not stop in
// its middle, however large it is, is lent memory beyond that.
//
// Threads. Any; each counter is an atomic, `used` a momentary sum. The limit may change while
// others read it: a check then goes by the old or the new one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace isotherm {

class MemoryBudget {
 public:
  // A counter whose changes are those of what is claimed, or the opposite.
  class ClaimedCounter {
   public:
    ClaimedCounter(std::atomic<int64_t>& claimed, int64_t sign) : claimed_(claimed), sign_(sign) {}

    int64_t load(std::memory_order order = std::memory_order_relaxed) const {
      return bytes_.load(order);
    }
    void fetch_add(int64_t bytes, std::memory_order order = std::memory_order_relaxed) {
      bytes_.fetch_add(bytes, order);
      claimed_.fetch_add(sign_ * bytes, order);
    }
    void fetch_sub(int64_t bytes, std::memory_order order = std::memory_order_relaxed) {
      fetch_add(-bytes, order);
    }

   private:
    std::atomic<int64_t>& claimed_;
    const int64_t sign_;
    std::atomic<int64_t> bytes_{0};
  };

  explicit MemoryBudget(uint64_t limit) : limit_(limit) {}

  // 0: no cap.
  uint64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  void set_limit(uint64_t bytes) { limit_.store(bytes, std::memory_order_relaxed); }
  uint64_t used() const {
    return positive(items.load() + index.load() + hot.load() + buffers.load() +
                    ahead.load(std::memory_order_relaxed) +
                    clients.load(std::memory_order_relaxed));
  }
  // `used` without the pages made ready ahead, which the next thread that needs memory gets;
  // without what is passing; and without what connections hold, which has a bound of its own
  // (net/client_limits.h), so that no client makes the writes of others fail.
  uint64_t claimed() const { return positive(claimed_.load(std::memory_order_relaxed)); }
  // The bytes that are left below the cap.
  uint64_t room() const {
    const uint64_t cap = limit();
    return cap == 0 ? ~uint64_t{0} : cap - std::min(cap, claimed());
  }
  // True when `bytes` more stay within the cap.
  bool fits(uint64_t bytes) const {
    const uint64_t cap = limit();
    return cap == 0 || (claimed() + bytes <= cap && bytes <= room_over());
  }
  // The same for a write that may run over the cap, of a batch that was admitted. What is stored
  // already may be over by more; then 0 bytes do not fit either.
  bool fits_over(uint64_t bytes) const {
    return limit() == 0 || stored() + bytes <= most_stored() + admitted();
  }
  // Whether `bytes` more leave what is stored near the cap.
  bool fits_near(uint64_t bytes) const {
    const uint64_t cap = limit();
    return cap == 0 || stored() + bytes <= cap + cap / 16;
  }
  // What batches that run may take.
  uint64_t admitted() const { return positive(admitted_.load()); }
  // Whether a batch that may take so many bytes could be admitted.
  bool would_admit(uint64_t bytes) const {
    return limit() == 0 || stored() + bytes + admitted() <= most_stored();
  }
  // Admits it, until `dismiss(counted)`; false when there is no room. A small batch far from where
  // room ends counts nothing.
  bool admit(uint64_t bytes, int64_t& counted) {
    constexpr uint64_t small = 64 << 10;
    const uint64_t cap = limit();
    if (cap == 0 || (bytes < small && room_over() > most_over(cap) / 2)) return true;
    const auto more = static_cast<int64_t>(bytes);
    const uint64_t all = positive(admitted_.fetch_add(more) + more);
    counted = more;
    if (all <= room_over()) return true;
    dismiss(counted);
    return false;
  }
  void dismiss(int64_t& counted) {
    if (counted != 0) admitted_.fetch_sub(counted);
    counted = 0;
  }
  // How far writes may run over the cap: a 16th of it and an eighth, the latter within bounds.
  uint64_t most_over() const { return most_over(limit()); }
  // The bytes that writes may still take, beyond the cap included. Buffers are left out, since it
  // is chance whether the one that holds this very value was reported already.
  uint64_t room_over() const {
    const uint64_t most = most_stored();
    return most - std::min(most, stored());
  }
  // Whether what is stored takes more than the cap, as after the cap was lowered.
  bool is_over() const {
    const uint64_t cap = limit();
    return cap != 0 && stored() > cap;
  }
  // What the indexes leave of the cap.
  uint64_t beside_indexes() const {
    const uint64_t lines = positive(index.load() + hot.load());
    const uint64_t cap = limit();
    return cap > lines ? cap - lines : 0;
  }

 private:
  // The counters of a moment need not belong together.
  static uint64_t positive(int64_t sum) { return sum > 0 ? static_cast<uint64_t>(sum) : 0; }

  uint64_t stored() const { return positive(items.load() + index.load() + hot.load()); }
  static uint64_t most_over(uint64_t cap) {
    constexpr uint64_t least = 16 << 20;
    constexpr uint64_t most = 96 << 20;
    return cap / 16 + std::clamp(cap / 8, least, most);
  }
  uint64_t most_stored() const {
    const uint64_t cap = limit();
    return cap + most_over(cap) + positive(lent.load());
  }

  std::atomic<uint64_t> limit_;
  std::atomic<int64_t> claimed_{0};
  std::atomic<int64_t> admitted_{0};

 public:
  ClaimedCounter items{claimed_, 1};     // chunks of classes, large items; retired ones included
  ClaimedCounter index{claimed_, 1};     // segments, overflow lines
  ClaimedCounter hot{claimed_, 1};       // the fast part before the index (hot/hot_table.h)
  ClaimedCounter buffers{claimed_, 1};   // of rounds, of readers of values on devices, of a sink
  ClaimedCounter passing{claimed_, -1};  // of all these: about to go
  std::atomic<int64_t> lent{0};          // to batches that run
  std::atomic<int64_t> clients{0};  // buffers of connections, and freed items that these still send
  std::atomic<int64_t> ahead{0};    // pages made ready ahead (items/pages_ahead.h)
};

}  // namespace isotherm
