// TileLines: what index/probe.h calls `lines`, for a tile of the GPU; see cuda/overflow_lines.h.
//
// All lanes of a tile call it together. A line that a tile returns, because another tile was faster
// to extend a chain, stays with the tile as a spare for its next chain and goes back in `close`.
#pragma once

#include <cstdint>

#include "base/lane_cuda.cuh"
#include "base/tile_lanes.h"
#include "cuda/overflow_lines.h"

namespace isotherm {

using TileCuda = TileLanes<LaneCuda>;

class TileLines {
 public:
  __device__ TileLines(TileCuda tile, const OverflowLines& lines) : tile_(tile), lines_(lines) {}

  // Null when there are no more.
  __device__ Bucket* take() {
    if (spare_ != nullptr) {
      Bucket* line = spare_;
      spare_ = nullptr;
      return line;
    }
    uint64_t at = 0;
    if (tile_.leads()) at = atomicAdd(lines_.taken, 1ull);
    at = tile_.share(at);
    return at < lines_.count ? lines_.free[at] : nullptr;
  }

  // A line that was never linked; only its first two slots were written.
  __device__ void give(Bucket* line) {
    if (tile_.leads()) {
      store_pair(&line->slot[0], {0, 0});
      store_pair(&line->slot[1], {0, 0});
    }
    spare_ = line;
  }

  __device__ void close() {
    if (spare_ != nullptr && tile_.leads()) lines_.returned[atomicAdd(lines_.given, 1ull)] = spare_;
    spare_ = nullptr;
  }

 private:
  TileCuda tile_;
  const OverflowLines& lines_;
  Bucket* spare_ = nullptr;
};

}  // namespace isotherm
