// SplitWalk: walks over a SplitTable, and whether its rows had room.
//
// A walk goes over one GPU after the other, and over what the host has of it; its cursor is a bound
// of hashes (gpu/table/table_scan.h), whose lowest bits are zeros, with the GPU's number in them.
// Where bins have moved a step goes bin by bin, and asks both sides for the entries of the same
// hashes at the same moment, whoever has them then; so entries that are there all the time are
// visited once or more, however they move meanwhile.
//
// Threads. Any, but for Shortages: one at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "base/hash.h"
#include "gpu/platform/device_stream.h"
#include "gpu/split/split_table.h"
#include "gpu/table/table_scan.h"

namespace isotherm {

template <class Device>
class SplitWalk {
 public:
  explicit SplitWalk(SplitTable<Device>& table) : table_(table) {}

  // A step: visit(key, value) for about `wanted` entries from `cursor` on. Returns the cursor to go
  // on from, 0 at the end. Throws std::invalid_argument for a cursor of another table.
  template <class Visit>
  uint64_t step(uint64_t cursor, uint64_t wanted, Visit&& visit) {
    uint64_t next = 0;
    table_.ask_sides([&](const SplitGpus<Device>& gpus, uint64_t seed,
                         const SplitHost<Device>* host) {
      const auto number = static_cast<uint32_t>(cursor % numbers);
      if (number >= gpus.size()) throw std::invalid_argument("the cursor is none of this table");
      SplitGpu<Device>& gpu = *gpus[number];
      gpu.enter();
      const DeviceStream<Device> stream(gpu.device);
      TableScan<Device> scan(gpu.device);
      const auto on_gpu = [&](uint64_t bound, auto&& show) {
        return scan.run(gpu.table, seed, bound, wanted, wanted, stream.get(), show);
      };
      next = host == nullptr ? on_gpu(cursor - number, visit)
                             : both(*host, number, seed, cursor - number, wanted, on_gpu, visit);
      if (next != 0) {
        next += number;
      } else if (number + 1 < gpus.size()) {
        next = number + 1;
      }
    });
    return next;
  }

 private:
  static constexpr uint64_t numbers = 32;  // a table has no more GPUs

  // Bounds are those of lines, so that their lowest bits are zeros; 0 is behind all others.
  static uint64_t lower(uint64_t a, uint64_t b) { return std::min(a - 1, b - 1) + 1; }

  // A step over the entries of one GPU that has given bins to the host.
  template <class OnGpu, class Visit>
  static uint64_t both(const SplitHost<Device>& host, uint32_t number, uint64_t seed,
                       uint64_t bound, uint64_t wanted, OnGpu&& on_gpu, Visit&& visit) {
    std::vector<BinHost::Entry> entries;
    uint64_t visited = 0;
    do {
      const HashBin bin = host.bin_of(number, bound);
      entries.clear();
      uint64_t next = host.read(number, bound, bin.end(), wanted, entries);
      // What a bin that has left the GPU had there is not visited, whatever its lines have now.
      std::vector<BinHost::Entry> there;
      next = lower(next, on_gpu(bound, [&](uint64_t key, uint64_t word) {
                     const uint64_t hash = mix(key, seed);
                     if (bin_number(hash, bin.bits) == bin.number && !host.on_host(hash)) {
                       there.push_back({hash, word});
                     }
                   }));
      entries.insert(entries.end(), there.begin(), there.end());
      for (const BinHost::Entry& entry : entries) {
        const bool in_step = entry.hash >= bound && (next == 0 || entry.hash < next);
        if (in_step) visit(unmix(entry.hash, seed), entry.word);
      }
      visited += entries.size();
      bound = next;
    } while (bound != 0 && visited < wanted);
    return bound;
  }

  SplitTable<Device>& table_;
};

// Whether all rows of the calls between two questions had room: then the numbers are equal.
template <class Device>
class Shortages {
 public:
  explicit Shortages(SplitTable<Device>& table) : table_(table) {}

  uint64_t count() {
    uint64_t sum = 0;
    table_.ask_sides([&](const SplitGpus<Device>& gpus, uint64_t, const auto* host) {
      for (const auto& gpu : gpus) sum += gpu->table.shortages();
      if (host != nullptr) sum += ++asked_;  // the host refuses rows, too
    });
    return sum;
  }

 private:
  SplitTable<Device>& table_;
  uint64_t asked_ = 0;
};

}  // namespace isotherm
