// tile_rows: how a tile works off the requests of its 8 lanes where each may take many steps.
//
// Each lane owns at most one request. The tile's lanes then work on the owners' requests together,
// one after another, the next line being loaded before the current one is looked at.
#pragma once

#include <cstdint>

#include "gpu/kernel/table_view.h"

namespace isotherm {

// Calls work(owner, home, view) for the lanes of the tile whose home has a line, equal in all
// lanes; `home` is each lane's own.
template <class Tile, class Work>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void tile_rows(const Tile& tile, const Home& home,
                                                    Work&& work) {
  constexpr uint32_t at_a_time = 2;
  if (tile.ballot(home.line != nullptr) == 0) return;
  ISOTHERM_KEEP_ROLLED
  for (uint32_t owner = 0; owner < tile_lanes; owner += at_a_time) {
    Home its[at_a_time];
    Pair view[at_a_time];
    for (uint32_t i = 0; i < at_a_time; ++i) {
      const uint64_t line = tile.from(reinterpret_cast<uint64_t>(home.line), owner + i);
      its[i] = {reinterpret_cast<Bucket*>(line), tile.from(home.hash, owner + i)};
      view[i] = line != 0 ? tile.load(its[i].line) : Pair{0, 0};
    }
    for (uint32_t i = 0; i < at_a_time; ++i) {
      if (its[i].line != nullptr) work(owner + i, its[i], view[i]);
    }
  }
}

}  // namespace isotherm
