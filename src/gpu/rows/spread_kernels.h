// Spread kernels: rows of a part brought into the order of their shards
// (gpu/split/shard_kernels.h), and back to the requests that asked for them.
//
// A row is `units` units of 8 or 16 bytes (scores are rows of one); its request went to the place
// that the split has noted. A thread copies a unit, so that those of a row lie beside one another
// for the lanes of a warp.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "base/pair.h"
#include "gpu/kernel/each_request.h"

namespace isotherm {

template <class Unit>
struct SpreadRowsKernel {
  const uint32_t* places = nullptr;
  const Unit* from = nullptr;
  Unit* to = nullptr;
  uint32_t rows = 0;
  uint32_t units = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    each_request(lane, uint64_t{rows} * units, [&](uint64_t i) {
      const uint64_t row = i / units;
      to[uint64_t{places[row]} * units + (i - row * units)] = from[i];
    });
  }
};

// The replies, and the rows of those that were found, where rows are wanted; others stay.
template <class Unit>
struct ReturnRowsKernel {
  const uint32_t* places = nullptr;
  const uint8_t* found = nullptr;
  const Unit* from = nullptr;  // null: no rows are wanted
  uint8_t* replies = nullptr;  // null: no replies are wanted
  Unit* to = nullptr;
  uint32_t rows = 0;
  uint32_t units = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint32_t copied = from != nullptr ? units : 1;
    each_request(lane, uint64_t{rows} * copied, [&](uint64_t i) {
      const uint64_t row = i / copied;
      const uint64_t unit = i - row * copied;
      const uint32_t place = places[row];
      const uint8_t was = found[place];
      if (unit == 0 && replies != nullptr) replies[row] = was;
      if (from != nullptr && was == 1) to[i] = from[uint64_t{place} * units + unit];
    });
  }
};

}  // namespace isotherm
