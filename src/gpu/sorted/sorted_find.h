// find_bound: where a key stands in a run, by one lane: a binary search over the prefixes of
// entries, the upper steps of which all lanes share in the cache, and, where several entries have
// the key's prefix, one over their keys.
#pragma once

#include <cstdint>

#include "gpu/sorted/sorted_run.h"

namespace isotherm {

template <class Key>
struct SoughtKey {
  Key key;
  uint64_t prefix = 0;
};

template <class Key>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE SoughtKey<Key> sought(const KeyFront& front, const Key& key) {
  return {key, front.prefix(key)};
}

struct SortedBound {
  uint32_t at = 0;     // of the first entry that does not come before the key
  bool equal = false;  // it has the key
};

// The first entry whose prefix is not below.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t find_prefix(const RunView& run, uint64_t prefix) {
  uint32_t low = 0;
  uint32_t left = run.entries;
  ISOTHERM_KEEP_ROLLED
  while (left != 0) {
    const uint32_t half = left / 2;
    const bool before = run.prefix(low + half) < prefix;
    low = before ? low + half + 1 : low;
    left = before ? left - half - 1 : half;
  }
  return low;
}

// `behind`: an entry that has the key, too.
template <class Key>
ISOTHERM_HOST_DEVICE inline SortedBound find_bound(const RunView& run, const SoughtKey<Key>& key,
                                                   bool behind = false) {
  uint32_t low = find_prefix(run, key.prefix);
  if (low == run.entries || run.prefix(low) != key.prefix) return {low, false};
  // An end of those of the same prefix, or a later one.
  uint32_t high = low + 1;
  for (uint32_t step = 1; high < run.entries && run.prefix(high) == key.prefix; step *= 2) {
    high = run.entries - high > step ? high + step : run.entries;
  }
  bool equal = false;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    const Pair head = run.head(middle);
    const int order = head.first != key.prefix ? 1 : compare_keys(run.record(head).key(), key.key);
    if (order < 0 || (behind && order == 0)) {
      low = middle + 1;
    } else {
      high = middle;
      equal = order == 0;
    }
  }
  return {low, equal};
}

}  // namespace isotherm
