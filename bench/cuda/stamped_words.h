// Values of several words that begin with a stamp, from which, and from its key, the rest follows.
// So a model that knows the stamp of each key (cuda/replayed_table.h) can tell whether a value is
// right.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace isotherm::bench {

ISOTHERM_HOST_DEVICE inline uint64_t stamped_word(uint64_t key, uint64_t stamp, uint64_t number) {
  return number == 0 ? stamp : (key ^ stamp) * (2 * number + 1);
}

// Whether the words are a value of the key; its stamp is the first of them.
ISOTHERM_HOST_DEVICE inline bool are_stamped(uint64_t key, const uint64_t* words, uint64_t count) {
  for (uint64_t number = 1; number < count; ++number) {
    if (words[number] != stamped_word(key, words[0], number)) return false;
  }
  return true;
}

}  // namespace isotherm::bench
