// HashBin: a range of hashes, those that share their top bits.
#pragma once

#include <cstdint>

namespace isotherm {

struct HashBin {
  uint64_t number = 0;  // the top `bits` bits
  int bits = 0;         // 0 to 63

  uint64_t first() const { return bits == 0 ? 0 : number << (64 - bits); }
  // Behind the last; 0 where that is the last hash of all.
  uint64_t end() const { return bits == 0 ? 0 : (number + 1) << (64 - bits); }
  // Whether the hashes that share the `depth` bits of `prefix` are all in it.
  bool contains(uint64_t prefix, int depth) const {
    return depth >= bits && prefix >> (depth - bits) == number;
  }
};

// The bin of a hash among 2^bits.
inline uint64_t bin_number(uint64_t hash, int bits) {
  return (hash >> 1) >> (63 - bits);  // in two steps, since bits may be 0
}

}  // namespace isotherm
