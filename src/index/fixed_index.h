// FixedIndex: u64 keys to u64 values on the lines of a LineIndex; the value lies in the slot.
//
// Keys go through a seeded bijection (base/hash.h), so equal hashes are equal keys and no key is
// ever compared. Every key and every value may be stored: the one key whose hash is 0, the mark of
// an empty slot, has a slot of its own here, guarded by a lock. If the budget is a cap (`capped`,
// index/line_pool.h) and is used up, an update that needs another line answers no_line.
//
// Threads. As LineIndex: within an epoch.
#pragma once

#include <cstdint>
#include <mutex>
#include <type_traits>

#include "base/hash.h"
#include "index/line_index.h"

namespace isotherm {

class FixedIndex {
 public:
  FixedIndex(Pages& pages, MemoryBudget& budget, EpochDomain& epochs, uint64_t seed,
             bool capped = true, uint64_t expected = 0)
      : index_(pages, budget, epochs, 0, capped, expected), seed_(seed) {}

  uint64_t hash(uint64_t key) const { return mix(key, seed_); }
  LineIndex& lines() { return index_; }
  const LineIndex& lines() const { return index_; }

  template <class Tile>
  ISOTHERM_INLINE Found find(uint64_t hash) const {
    if (ISOTHERM_UNLIKELY(hash == 0)) return find_zero();
    return index_.find<Tile>(hash);
  }

  // decide(found, word) -> Decision, run under a lock; see index/probe.h.
  template <class Tile, class Decide>
  ISOTHERM_INLINE Updated update(uint64_t hash, Decide&& decide) {
    if (ISOTHERM_UNLIKELY(hash == 0)) {
      return update_zero(
          [](void* context, bool found, uint64_t word) -> Decision {
            return (*static_cast<std::remove_reference_t<Decide>*>(context))(found, word);
          },
          &decide);
    }
    return index_.update<Tile>(
        hash, [&](bool found, uint64_t word, Segment&) { return decide(found, word); });
  }

  uint64_t count() const;

  // Visits whole lines from `cursor` on (0: the beginning), visit(key, word), until `count` entries
  // were visited, and returns the cursor to go on from; 0 at the end.
  template <class Visit>
  uint64_t scan(uint64_t cursor, uint64_t count, Visit&& visit) const {
    uint64_t visited = 0;
    const auto show = [&](uint64_t hash, uint64_t word) {
      visit(unmix(hash, seed_), word);
      ++visited;
    };
    if (cursor == 0) {
      if (const Found zero = find_zero(); zero.found) show(0, zero.word);
    }
    uint64_t bound = cursor;
    do {
      bound = index_.scan(bound, show);
    } while (bound != 0 && visited < count);
    return bound;
  }

 private:
  // Not inlined: these lock, and run for one key in 2^64.
  Found find_zero() const;
  using DecideZero = Decision (*)(void* context, bool found, uint64_t word);
  Updated update_zero(DecideZero decide, void* context);

  LineIndex index_;
  const uint64_t seed_;
  mutable std::mutex zero_mutex_;
  Found zero_;
};

}  // namespace isotherm
