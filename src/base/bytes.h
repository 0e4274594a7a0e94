// Comparing short byte strings without a call.
//
// Keys are mostly 8 to 32 bytes long, where the call of memcmp costs as much as the comparison. Two
// overlapping loads of n bytes compare any length from n to 2 n.
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

}  // namespace isotherm
