// HashBin: a range of hashes, those that share their top bits. SharedBin: one whose hashes may lie
// on two sides.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace isotherm {

struct HashBin {
  uint64_t number = 0;  // the top `bits` bits
  int bits = 0;         // 0 to 63

  uint64_t first() const { return bits == 0 ? 0 : number << (64 - bits); }
  // The hash behind the last one; 0 where that is the last hash of all.
  uint64_t end() const { return bits == 0 ? 0 : (number + 1) << (64 - bits); }
  // Whether the hashes that share the `depth` bits of `prefix` are all in it.
  bool contains(uint64_t prefix, int depth) const {
    return depth >= bits && prefix >> (depth - bits) == number;
  }
};

// The bin of a hash among 2^bits.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t bin_number(uint64_t hash, int bits) {
  return (hash >> 1) >> (63 - bits);  // in two steps, since bits may be 0
}

// A bin that lies on a device, on the host, or on both while it moves, its lowest hashes first. One
// that does not move has boundary 0, so all its hashes are above it.
struct SharedBin {
  uint64_t boundary = 0;
  bool to_host = true;  // where hashes under the boundary are; the others are where they were

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool on_host(uint64_t hash) const {
    return (hash < boundary) == to_host;
  }
};

}  // namespace isotherm
