// HostTier: the roots of an index that do not lie on a device, in lines of the host's memory.
//
// Threads. find, change and full: any, within an epoch. The others: one, while nobody else is here,
// within an epoch. Errors. `full` says that there was no memory. Memory. Of the store: it counts
// as index in `maxmemory`.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

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

  // Looks up `count` keys, each into its roots[i] where found[i] becomes 1.
  void find(const uint64_t* keys, size_t count, Location* roots, uint8_t* found);
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
  std::atomic<bool> full_{false};
  FixedIndex index_;
  GrowthShare growth_;
};

}  // namespace isotherm
