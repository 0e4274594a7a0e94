// HostTier: the roots of an index that do not lie on a device, in lines of the host's memory.
//
// Threads. find, change and full: any, within an epoch. The others: one, while nobody else is here,
// within an epoch. Errors. `full` says that there was no memory. Memory. Of the store: it counts
// as index in `maxmemory`.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/tile.h"
#include "index/fixed_index.h"
#include "index/growth_share.h"
#include "items/location.h"

namespace isotherm {

class HostTier {
 public:
  struct Entry {
    uint64_t hash;
    Location root;
  };

  // With segments for `expected` entries. Throws std::bad_alloc without memory for them.
  HostTier(Pages& pages, MemoryBudget& budget, EpochDomain& epochs, uint64_t seed,
           uint64_t expected)
      : index_(pages, budget, epochs, seed, false, expected) {}

  // What is looked up: a row of somebody's and its hash.
  struct Wanted {
    uint32_t row;
    uint64_t hash;
  };
  // Calls found(row, Found) for each.
  template <class Use>
  void find(const Wanted* wanted, size_t count, Use&& use) const {
    constexpr size_t ahead = 16;
    for (size_t i = 0; i < std::min(ahead, count); ++i) prefetch(wanted[i].hash);
    for (size_t i = 0; i < count; ++i) {
      if (i + ahead < count) prefetch(wanted[i + ahead].hash);
      use(wanted[i].row, index_.find<TilePlain>(wanted[i].hash));
    }
  }
  // Another root, location::none for none. Throws nothing.
  void change(uint64_t hash, Location root);
  // Whether a change found no memory.
  bool full() const { return full_.load(std::memory_order_relaxed); }
  void prefetch_change(uint64_t hash) const { index_.lines().prefetch(hash, true); }
  // Lets the index grow, or shrink, for so many changes that were made.
  void settle(uint64_t changes);

  // Appends the entries of hashes from `bound` to before `end` (0: to the last), line by line until
  // there are `wanted`, to `entries`; returns the bound to go on from, `end` when all are there.
  uint64_t read(uint64_t bound, uint64_t end, uint64_t wanted, std::vector<Entry>& entries) const;
  uint64_t count() const { return index_.count(); }

 private:
  void prefetch(uint64_t hash) const { index_.lines().prefetch(hash, false); }

  std::atomic<bool> full_{false};
  FixedIndex index_;
  GrowthShare growth_;
};

}  // namespace isotherm
