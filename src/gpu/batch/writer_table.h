// WriterTable: which keys a part of a batch writes; an open-addressed hash table that stays in L2.
//
// Layout. Arrays of `slots` slots, by columns; the number of a key's slot is what its requests are
// grouped by.
//   entry    0 where free, else the upper half of the key's hash, and below it 1 + the row of the
//            writer that came first, in no order; the row's key tells keys of one tag apart
//   many     0: one request writes the key; 1: several; 2: several, and no memory for the key;
//            3: several, and the index shows the key though it was absent when the part began
//   start, end   where the writers of the key stand among the sorted rows, where they are many
//   homes    a bit per slot: some key's search begins here. Read before `find` where nearly no key
//            is there; only where gpu/batch/try_kernels.h noted them
//
// Threads. Slots go from free to taken once, by compare-and-swap, in MarkKernel; so a stale read
// can only show a taken slot as free, and the compare-and-swap then tells. Later kernels only read
// entries.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace isotherm {

struct WriterTable {
  static constexpr uint32_t none = ~0u;
  static constexpr uint8_t no_memory = 2;
  static constexpr uint8_t was_absent = 3;

  uint64_t* entry = nullptr;
  uint8_t* many = nullptr;
  uint32_t* start = nullptr;
  uint32_t* end = nullptr;
  uint32_t* homes = nullptr;
  uint32_t slots = 0;              // a power of two, above the number of rows
  const uint64_t* keys = nullptr;  // of the part's rows

  // The first writer of the slot's key.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t row(uint32_t slot) const {
    return static_cast<uint32_t>(entry[slot]) - 1;
  }

  // `first`: whether the key was new.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t insert(uint64_t hash, uint64_t key, uint32_t row,
                                                       bool& first) const {
    const uint64_t mine = (hash >> 32) << 32 | (uint64_t{row} + 1);
    for (uint32_t at = begin(hash);; at = next(at)) {
      uint64_t seen = entry[at];
      if (seen == 0) {
        seen = Lane::compare_exchange(&entry[at], uint64_t{0}, mine);
        first = seen == 0;
        if (first) return at;
      }
      if (is(seen, hash, key)) {
        first = false;
        return at;
      }
    }
  }

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t find(uint64_t hash, uint64_t key) const {
    for (uint32_t at = begin(hash);; at = next(at)) {
      const uint64_t seen = entry[at];
      if (seen == 0) return none;
      if (is(seen, hash, key)) return at;
    }
  }

  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void note_home(uint64_t hash) const {
    const uint32_t at = begin(hash);
    Lane::atomic_or(&homes[at / 32], 1u << at % 32);
  }
  // False: find() would return none.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool may_find(uint64_t hash) const {
    const uint32_t at = begin(hash);
    return (homes[at / 32] >> at % 32 & 1) != 0;
  }

 private:
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is(uint64_t seen, uint64_t hash, uint64_t key) const {
    return seen >> 32 == hash >> 32 && keys[static_cast<uint32_t>(seen) - 1] == key;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t begin(uint64_t hash) const {
    return static_cast<uint32_t>(hash) & (slots - 1);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t next(uint32_t at) const {
    return (at + 1) & (slots - 1);
  }
};

}  // namespace isotherm
