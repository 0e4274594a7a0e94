// Run sort kernels: puts the heads of a run, whose records came in any order, into the order of
// keys; of equal keys in the order in which they came.
//
// SortPassKernel merges stretches of sorted heads by twos: each head finds its rank in the other
// stretch by a binary search. A pass doubles the stretches, the first ones being single heads, so
// keys that are alike in their first bytes cost no more passes. LastOfKeyKernel then says which
// entries stay, for the kernels of gpu/sorted/merge_kernels.h, which bring the records into order.
#pragma once

#include <cstdint>

#include "gpu/sorted/merge_kernels.h"

namespace isotherm {

struct SortPassKernel {
  static constexpr uint32_t threads = 256;

  const Pair* from = nullptr;
  Pair* to = nullptr;
  const uint64_t* words = nullptr;
  uint64_t entries = 0;
  uint64_t stretch = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    each_request(lane, entries, [&](uint64_t i) {
      const uint64_t first = i / (2 * stretch) * (2 * stretch);
      const bool second = i - first >= stretch;
      const RunView other = view(second ? first : first + stretch);
      const Pair head = load_steady_pair(from + i);
      const SoughtKey<StoredKey> key{other.record(head).key(), head.first};
      const uint64_t own = i - first - (second ? stretch : 0);
      to[first + own + find_bound(other, key, second).at] = head;
    });
  }

 private:
  // The stretch that begins there, if there is one.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE RunView view(uint64_t begin) const {
    const uint64_t left = begin < entries ? entries - begin : 0;
    return {from + begin, words, static_cast<uint32_t>(left < stretch ? left : stretch)};
  }
};

// Of a part whose older run is sorted, and has several entries of some keys.
struct LastOfKeyKernel {
  static constexpr uint32_t threads = 256;

  MergePart part;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    each_request(lane, part.positions(), [&](uint64_t i) {
      const auto entry = static_cast<uint32_t>(i);
      const Pair head = part.older.head(entry);
      const SortedRecord record = part.older.record(head);
      part.entries[i] = entry;
      part.words[i] = is_last(entry, head.first, record)
                          ? record.words((head.second & SortedPlace::flagged) != 0)
                          : 0;
    });
  }

 private:
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_last(uint32_t entry, uint64_t prefix,
                                                    const SortedRecord& record) const {
    if (entry + 1 == part.older.entries) return true;
    const Pair next = part.older.head(entry + 1);
    return next.first != prefix || compare_keys(part.older.record(next).key(), record.key()) != 0;
  }
};

}  // namespace isotherm
