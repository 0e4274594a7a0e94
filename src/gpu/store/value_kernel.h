// CopyValuesKernel: makes a list of copies between memory of the device and pinned memory of the
// host, in units of 16 bytes.
//
// Tiles of eight lanes take the copies in turn, each lane every eighth unit, so a tile moves a line
// of 128 bytes at a time; lanes have four units on their way. The host cuts long values into
// several copies, which other tiles share.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "base/pair.h"
#include "gpu/store/value_tier.h"

namespace isotherm {

struct CopyValuesKernel {
  static constexpr uint32_t tile = 8;
  static constexpr uint32_t under_way = 4;

  const ValueCopy* copies = nullptr;
  uint32_t count = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint32_t thread = lane.block() * lane.threads() + lane.thread();
    const uint32_t tiles = lane.blocks() * lane.threads() / tile;
    for (uint32_t i = thread / tile; i < count; i += tiles) copy(copies[i], thread % tile);
  }

 private:
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static void copy(const ValueCopy& one, uint32_t first) {
    const auto* from = reinterpret_cast<const Pair*>(one.from);
    auto* to = reinterpret_cast<Pair*>(one.to);
    const uint64_t units = (one.bytes + sizeof(Pair) - 1) / sizeof(Pair);
    for (uint64_t unit = first; unit < units; unit += uint64_t{tile} * under_way) {
      Pair data[under_way];
      for (uint32_t i = 0; i < under_way; ++i) {
        if (unit + i * tile < units) data[i] = from[unit + i * tile];
      }
      for (uint32_t i = 0; i < under_way; ++i) {
        if (unit + i * tile < units) to[unit + i * tile] = data[i];
      }
    }
  }
};

}  // namespace isotherm
