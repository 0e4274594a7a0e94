// Keys of a sorted tier: in records, in the columns of a call, and on the host; how they compare,
// and the number that most of them are told apart by.
//
// A key is read as numbers of 8 bytes, the first byte the highest, filled with zeros behind its
// end. So "a" and "a\0" give the same numbers; then the shorter key comes first.
//
// The prefix of a key is such a number from the end of the tier's front on (KeyFront), what most
// keys begin with; keys before all those that begin so have the prefix 0, keys behind them the
// highest. So prefixes have the order of keys, and keys of equal prefixes are compared whole.
//
// Limits. A front has SortedTierOptions::most_front bytes at most.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "gpu/items/byte_units.h"
#include "gpu/sorted/sorted_pair.h"

namespace isotherm {

ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t big_endian(uint64_t word) {
#if defined(__CUDA_ARCH__)
  const uint32_t low = __byte_perm(static_cast<uint32_t>(word >> 32), 0, 0x0123);
  const uint32_t high = __byte_perm(static_cast<uint32_t>(word), 0, 0x0123);
  return uint64_t{high} << 32 | low;
#else
  return __builtin_bswap64(word);
#endif
}

// Up to 8 bytes of a string from byte `at` on; zeros behind it fill its last word, and the answer.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t load_bytes(const uint64_t* words, uint64_t at,
                                                         uint32_t bytes) {
  const uint64_t* const from = words + at / word_bytes;
  const auto skip = static_cast<uint32_t>(at % word_bytes);
  const uint64_t word = load_steady_word(from) >> (8 * skip);
  if (skip + bytes <= word_bytes) return word;
  return word | load_steady_word(from + 1) << (8 * (word_bytes - skip));
}

// What the kinds of keys have: how long they are, and `at`, the number from a byte on.
struct StoredKey {
  const uint64_t* words = nullptr;
  uint32_t bytes = 0;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t at(uint32_t from) const {
    if (from >= bytes) return 0;
    const uint32_t left = bytes - from;
    return big_endian(load_bytes(words, from, left < word_bytes ? left : word_bytes));
  }
};

struct AskedKey {
  const char* data = nullptr;
  uint32_t bytes = 0;
  ByteRange readable;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t at(uint32_t from) const {
    if (from >= bytes) return 0;
    const uint32_t left = bytes - from;
    return big_endian(
        load_unit(data + from, left < word_bytes ? left : word_bytes, readable).first);
  }
};

struct HostKey {
  const char* data = nullptr;
  uint32_t bytes = 0;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t at(uint32_t from) const {
    if (from >= bytes) return 0;
    const uint32_t left = bytes - from;
    uint64_t word = 0;
    std::memcpy(&word, data + from, left < word_bytes ? left : word_bytes);
    return big_endian(word);
  }
};

struct KeyFront {
  static constexpr uint32_t most_bytes = SortedTierOptions::most_front;

  uint64_t number[most_bytes / word_bytes] = {};
  uint32_t bytes = 0;

  static KeyFront of(std::string_view text) {
    KeyFront front;
    front.bytes = static_cast<uint32_t>(text.size() < most_bytes ? text.size() : most_bytes);
    const HostKey key{text.data(), front.bytes};
    for (uint32_t at = 0; at < front.bytes; at += word_bytes) {
      front.number[at / word_bytes] = key.at(at);
    }
    return front;
  }

  template <class Key>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t prefix(const Key& key) const {
    for (uint32_t at = 0; at < bytes; at += word_bytes) {
      uint64_t its = key.at(at);
      if (bytes - at < word_bytes) its &= ~uint64_t{0} << (8 * (word_bytes - (bytes - at)));
      const uint64_t mine = number[at / word_bytes];
      if (its != mine) return its < mine ? 0 : ~uint64_t{0};
    }
    return key.at(bytes);
  }
};

// Below 0 where `a` comes first, 0 where they are equal.
template <class A, class B>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE int compare_keys(const A& a, const B& b) {
  const uint32_t shorter = a.bytes < b.bytes ? a.bytes : b.bytes;
  ISOTHERM_KEEP_ROLLED
  for (uint32_t at = 0; at < shorter; at += word_bytes) {
    const uint64_t its = a.at(at);
    const uint64_t other = b.at(at);
    if (its != other) return its < other ? -1 : 1;
  }
  if (a.bytes == b.bytes) return 0;
  return a.bytes < b.bytes ? -1 : 1;
}

}  // namespace isotherm
