// TierRoute: where a row of a table goes that its device and the host share in bins
// (index/hash_bin.h): to the device, or to one of the lists that threads of the host take.
//
// Shard 0 is the device's; the others are the host's, drawn from the low half of the hash, so that
// no key is in two lists. Of some rows the route counts the bin as read.
#pragma once

#include <cstdint>

#include "base/hash.h"
#include "base/macros.h"
#include "index/hash_bin.h"

namespace isotherm {

struct TierRoute {
  uint64_t seed = 0;
  uint32_t shards = 0;  // the host's lists and one
  int bits = 0;         // of bins
  const SharedBin* bins = nullptr;
  uint32_t* reads = nullptr;  // of each bin
  uint32_t sampled = 1;       // one row in so many is counted

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t operator()(uint64_t key) const {
    const uint64_t hash = mix(key, seed);
    if (!bins[bin_number(hash, bits)].on_host(hash)) return 0;
    const uint64_t low = static_cast<uint32_t>(hash);
    return 1 + static_cast<uint32_t>(low * (shards - 1) >> 32);
  }
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void count(const Lane& lane, uint32_t row,
                                                  uint64_t key) const {
    if (row % sampled == 0) lane.atomic_add(&reads[bin_number(mix(key, seed), bits)], uint32_t{1});
  }
};

}  // namespace isotherm
