// A run of a sorted tier, as kernels see it: entries by key, and their records.
//
//   heads     an entry each, in the order of keys: prefix of the key (gpu/sorted/sorted_key.h), 8
//             bytes | place, 8: bit 0 erased, bit 1 has flags, from bit 2 on the first word of its
//             record
//   words     records, in the same order, in words of 8 bytes:
//             bytes of the key, 4 | bytes of the value, 4 | key, filled with zeros to whole words |
//             value, likewise | flags, one word, where it has some
//
// So an entry of 8 and 8 bytes takes 40 bytes, and the records of neighbours are neighbours.
//
// Runs never change. Limits. Key and value have less than 2^30 bytes together (most_pair_bytes), so
// that the words of a warp's records can be counted by 32 bits; a run has less than 2^31 entries.
#pragma once

#include <cstdint>

#include "base/pair.h"
#include "gpu/sorted/sorted_key.h"

namespace isotherm {

inline constexpr uint64_t most_pair_bytes = (uint64_t{1} << 30) - 1024;
inline constexpr uint64_t most_run_entries = (uint64_t{1} << 31) - 1;

struct SortedPlace {
  static constexpr uint64_t erased = 1;
  static constexpr uint64_t flagged = 2;
  static constexpr uint32_t word_at = 2;
};

struct SortedRecord {
  const uint64_t* at = nullptr;
  uint32_t key_bytes = 0;
  uint32_t value_bytes = 0;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static SortedRecord of(const uint64_t* at) {
    const uint64_t sizes = load_steady_word(at);
    return {at, static_cast<uint32_t>(sizes), static_cast<uint32_t>(sizes >> 32)};
  }
  static constexpr uint64_t sizes_word(uint64_t key_bytes, uint64_t value_bytes) {
    return value_bytes << 32 | key_bytes;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE StoredKey key() const { return {at + 1, key_bytes}; }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE const uint64_t* value() const {
    return at + 1 + words_of(key_bytes);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t flags(bool flagged) const {
    return flagged ? static_cast<uint32_t>(load_steady_word(value() + words_of(value_bytes))) : 0;
  }
  // Of all of it.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t words(bool flagged) const {
    return static_cast<uint32_t>(1 + words_of(key_bytes) + words_of(value_bytes)) +
           (flagged ? 1 : 0);
  }
};

struct RunView {
  const Pair* heads = nullptr;
  const uint64_t* words = nullptr;
  uint32_t entries = 0;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Pair head(uint32_t entry) const {
    return load_steady_pair(heads + entry);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t prefix(uint32_t entry) const {
    return load_steady_word(&heads[entry].first);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE SortedRecord record(const Pair& head) const {
    return SortedRecord::of(words + (head.second >> SortedPlace::word_at));
  }
};

// All runs that a call reads, the newest first.
struct SortedRuns {
  static constexpr uint32_t most = 24;

  RunView run[most];
  uint32_t count = 0;
  KeyFront front;
};

}  // namespace isotherm
