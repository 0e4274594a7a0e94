// SplitWalk: walks over a SplitTable, and whether its rows had room.
//
// A walk goes over one GPU after the other; its cursor is a bound of hashes there
// (gpu/table/table_scan.h), whose lowest bits are zeros, with the GPU's number in them. Entries
// that are there all the time are visited once or more; but those of bins that move between a GPU
// and the host may be missed, so `allowed` is false once bins have moved.
//
// Threads. Any, but for Shortages: one at a time.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "gpu/platform/device_stream.h"
#include "gpu/split/split_table.h"
#include "gpu/table/table_scan.h"

namespace isotherm {

template <class Device>
class SplitWalk {
 public:
  explicit SplitWalk(SplitTable<Device>& table) : table_(table) {}

  bool allowed() {
    bool all_on_gpus = false;
    table_.ask_gpus([&](const auto&, uint64_t, bool shared) { all_on_gpus = !shared; });
    return all_on_gpus;
  }

  // A step: visit(key, value) for about `wanted` entries from `cursor` on. Returns the cursor to go
  // on from, 0 at the end. Throws std::invalid_argument for a cursor of another table.
  template <class Visit>
  uint64_t step(uint64_t cursor, uint64_t wanted, Visit&& visit) {
    uint64_t next = 0;
    table_.ask_gpus([&](const SplitGpus<Device>& gpus, uint64_t seed, bool) {
      const uint64_t number = cursor % numbers;
      if (number >= gpus.size()) throw std::invalid_argument("the cursor is none of this table");
      SplitGpu<Device>& gpu = *gpus[number];
      gpu.enter();
      const DeviceStream<Device> stream(gpu.device);
      TableScan<Device> scan(gpu.device);
      next = scan.run(gpu.table, seed, cursor - number, wanted, wanted, stream.get(), visit);
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

  SplitTable<Device>& table_;
};

// Whether all rows of the calls between two questions had room: then the numbers are equal.
template <class Device>
class Shortages {
 public:
  explicit Shortages(SplitTable<Device>& table) : table_(table) {}

  uint64_t count() {
    uint64_t sum = 0;
    table_.ask_gpus([&](const SplitGpus<Device>& gpus, uint64_t, bool shared) {
      for (const auto& gpu : gpus) sum += gpu->table.shortages();
      if (shared) sum += ++asked_;  // the host refuses rows, too
    });
    return sum;
  }

 private:
  SplitTable<Device>& table_;
  uint64_t asked_ = 0;
};

}  // namespace isotherm
