// SplitRoute: where a row of a table goes that lies on some devices and, in bins
// (index/hash_bin.h), on the host: to the device that its hash says, or to one of the lists that
// threads of the host take.
//
// Shard i is device i's, drawn from the low half of the hash, since a table's directory goes by the
// high bits. The shards behind those of the devices are the host's lists, drawn from where the low
// half lies within its device's share, so that no key is in two lists. Each device has bins of its
// own; of some rows the route counts the bin as read.
#pragma once

#include <cstdint>

#include "base/hash.h"
#include "base/macros.h"
#include "gpu/split/shard_kernels.h"
#include "index/hash_bin.h"

namespace isotherm {

struct SplitRoute {
  static constexpr uint32_t most_devices = ShardLayout::most_shards;

  uint64_t seed = 0;
  uint32_t devices = 1;
  uint32_t shards = 0;                // the devices, and the lists of the host
  uint32_t sampled = 1;               // one row in so many is counted
  const SharedBin* bins = nullptr;    // of all devices, one after another
  uint32_t* reads = nullptr;          // of each bin
  uint32_t first[most_devices] = {};  // of each device's bins
  uint8_t bits[most_devices] = {};    // of their number

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t operator()(uint64_t key) const {
    const uint64_t hash = mix(key, seed);
    const uint64_t low = uint64_t{static_cast<uint32_t>(hash)} * devices;
    const auto device = static_cast<uint32_t>(low >> 32);
    if (!bins[bin(device, hash)].on_host(hash)) return device;
    return devices + static_cast<uint32_t>((low & 0xFFFFFFFF) * (shards - devices) >> 32);
  }
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void count(const Lane& lane, uint32_t row,
                                                  uint64_t key) const {
    if (row % sampled != 0) return;
    const uint64_t hash = mix(key, seed);
    lane.atomic_add(&reads[bin(shard_of_hash(hash, devices), hash)], uint32_t{1});
  }

 private:
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t bin(uint32_t device, uint64_t hash) const {
    return first[device] + bin_number(hash, bits[device]);
  }
};

}  // namespace isotherm
