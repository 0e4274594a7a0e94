// HostTier: the entries of an index that do not lie on a device, in lines of the host's memory:
// hashes to words, which are roots in the index of a store.
//
// Threads. find, put, erase, change and full: any, within an epoch. The others: one, while nobody
// else is here, within an epoch. Errors. `put` and `full` say that there was no memory. Memory. It
// counts as index in the budget.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/split/bin_tier.h"
#include "index/fixed_index.h"
#include "index/growth_share.h"
#include "items/location.h"

namespace isotherm {

class HostTier final : public BinHost {
 public:
  // With segments for `expected` entries. Throws std::bad_alloc without memory for them. `capped`:
  // see FixedIndex.
  HostTier(Pages& pages, MemoryBudget& budget, EpochDomain& epochs, uint64_t seed,
           uint64_t expected, bool capped = false)
      : index_(pages, budget, epochs, seed, capped, expected) {}

  FixedIndex& index() { return index_; }

  // Looks up `count` keys, each into its words[i] where found[i] becomes 1.
  void find(const uint64_t* keys, size_t count, uint64_t* words, uint8_t* found);
  // False without memory. Throws nothing.
  bool put(uint64_t hash, uint64_t word) { return update(hash, {Action::store, word}); }
  void erase(uint64_t hash) { update(hash, {Action::erase, 0}); }
  // Another root, location::none for none. Throws nothing.
  void change(uint64_t hash, Location root);
  // Whether a change found no memory.
  bool full() const { return full_.load(std::memory_order_relaxed); }
  void prefetch_change(uint64_t hash) const { index_.lines().prefetch(hash, true); }
  // Lets the index grow, or shrink, for so many changes that were made.
  void settle(uint64_t changes);

  bool put(std::span<const Entry> entries) override;
  void erase(std::span<const Entry> entries) override;
  uint64_t read(uint64_t bound, uint64_t end, uint64_t wanted,
                std::vector<Entry>& entries) const override;
  uint64_t count() const { return index_.count(); }

 private:
  bool update(uint64_t hash, Decision decision);

  std::atomic<bool> full_{false};
  FixedIndex index_;
  GrowthShare growth_;
};

}  // namespace isotherm
