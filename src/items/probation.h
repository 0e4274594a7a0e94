// Probation: how much of the memory of items those get that have not proven themselves.
//
// Every new item is on probation until the CLOCK's hand finds that it was read
// (items/clock_hand.h). The larger the share of items on probation, the more the store forgets by
// age; the smaller it is, the longer it keeps what was read before. Which is better depends on the
// requests, so the store learns it from its mistakes, as ARC and CAR do: it remembers some keys
// that it evicted lately, those on probation and the proven ones apart. Where one comes back, its
// kind should have had more memory, so the share moves a step. Such a key has been asked for twice,
// so its item is proven at once.
//
//   entry, 4 bytes   u16 of the last key on probation that was evicted here, u16 of the last proven
//                    one: 16 bits of the hash, of which the lowest is set; 0: none
//
// A key's entry is chosen by other bits of its hash. There are as many entries as a quarter to an
// eighth of the items: what was evicted longer ago would hardly have been kept by another share.
// Until the hand has gone round once, nobody knows how many that is, and nothing is remembered. A
// key that is wrongly remembered, one in tens of thousands, does no harm.
//
// Threads. Any; `fit`: one at a time. A step of the share that is lost to another thread's does no
// harm either.
// Limits. 2^24 entries, and no more than a quarter of the items of 64 bytes that the pages have
// addresses for.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/macros.h"
#include "items/memory_budget.h"
#include "items/reservation.h"

namespace isotherm {

class Probation {
 public:
  // The budget counts the entries; all items together have so many bytes at most.
  Probation(MemoryBudget& budget, uint64_t item_bytes);
  ~Probation();
  Probation(const Probation&) = delete;
  Probation& operator=(const Probation&) = delete;

  void note_evicted(uint64_t hash, bool proven);
  // Of what `comes_back` looks at, for stages that know the key early.
  ISOTHERM_INLINE void prefetch(uint64_t hash) const {
    const uint64_t entries = in_use_.load(std::memory_order_relaxed);
    if (entries != 0) __builtin_prefetch(&entries_[hash >> 16 & (entries - 1)], 1);
  }
  // A key that was absent is stored. Whether it was evicted lately.
  bool comes_back(uint64_t hash);
  // Whether items on probation have more than their share of `all` bytes.
  bool exceeds(uint64_t bytes, uint64_t all) const;
  // There are about so many items.
  void fit(uint64_t items);

  uint32_t permille() const { return permille_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    std::atomic<uint16_t> young{0};
    std::atomic<uint16_t> proven{0};
  };
  MemoryBudget& budget_;
  const uint64_t most_entries_;
  LazyArray<Entry> entries_;
  uint64_t counted_ = 0;             // entries that the budget counts
  std::atomic<uint64_t> in_use_{0};  // a power of two, or none
  std::atomic<uint32_t> permille_;
};

}  // namespace isotherm
