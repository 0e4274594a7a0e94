// Comparing and copying short byte strings without a call.
//
// Keys and values are mostly 8 to 64 bytes long, where the call of memcmp or memcpy costs as much
// as its work. Two overlapping loads of n bytes take any length from n to 2 n.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/macros.h"

namespace isotherm {

namespace bytes_internal {

template <class Word>
ISOTHERM_INLINE Word load(const char* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

// 0 where the first and the last sizeof(Word) bytes agree.
template <class Word>
ISOTHERM_INLINE Word differ(const char* a, const char* b, size_t size) {
  const size_t last = size - sizeof(Word);
  return static_cast<Word>((load<Word>(a) ^ load<Word>(b)) |
                           (load<Word>(a + last) ^ load<Word>(b + last)));
}

}  // namespace bytes_internal

ISOTHERM_INLINE bool equal_bytes(const char* a, const char* b, size_t size) {
  using bytes_internal::differ;
  if (size >= 8 && size <= 16) return differ<uint64_t>(a, b, size) == 0;
  if (size > 16) {
    if (size > 32) return std::memcmp(a, b, size) == 0;
    return (differ<uint64_t>(a, b, 16) | differ<uint64_t>(a + size - 16, b + size - 16, 16)) == 0;
  }
  if (size >= 4) return differ<uint32_t>(a, b, size) == 0;
  if (size >= 2) return differ<uint16_t>(a, b, size) == 0;
  return size == 0 || *a == *b;
}

namespace bytes_internal {

// The first and the last sizeof(Word) bytes.
template <class Word>
ISOTHERM_INLINE void copy_ends(char* to, const char* from, size_t size) {
  Word first;
  Word last;
  std::memcpy(&first, from, sizeof first);
  std::memcpy(&last, from + size - sizeof last, sizeof last);
  std::memcpy(to, &first, sizeof first);
  std::memcpy(to + size - sizeof last, &last, sizeof last);
}
struct Bytes16 {
  uint64_t half[2];
};
struct Bytes32 {
  Bytes16 half[2];
};

}  // namespace bytes_internal

// The two do not overlap.
ISOTHERM_INLINE void copy_bytes(char* to, const char* from, size_t size) {
  using namespace bytes_internal;
  if (size >= 16) {
    if (size <= 32) return copy_ends<Bytes16>(to, from, size);
    if (size <= 64) return copy_ends<Bytes32>(to, from, size);
    std::memcpy(to, from, size);
    return;
  }
  if (size >= 8) return copy_ends<uint64_t>(to, from, size);
  if (size >= 4) return copy_ends<uint32_t>(to, from, size);
  if (size >= 2) return copy_ends<uint16_t>(to, from, size);
  if (size == 1) *to = *from;
}

}  // namespace isotherm
