// LineStock: overflow lines in device memory, for kernels that extend chains.
//
// Layout. Free lines lie in `shards` arrays of addresses, each with a counter of its own in a line
// of its own, so that thousands of tiles that take lines do not queue for one counter. What goes
// back in a kernel (a line whose tile was slower than another to extend the chain, the old lines of
// a split, lines that their chains can do without) is gathered in `returned` and put on the free
// lists, cleared, by ShelveKernel between batches. So within one kernel lines are only taken or
// only given, and counters are all the synchronisation there is.
//
// Threads. A tile's lanes call together. Kernels that take from one stock run one after another.
#pragma once

#include <cstdint>

#include "base/tile_lanes.h"
#include "index/bucket.h"

namespace isotherm {

struct StockCounters {
  static constexpr uint32_t shards = 32;
  struct alignas(128) Shard {
    int64_t free = 0;
  };
  Shard shard[shards];
  alignas(128) uint64_t returned = 0;
};

// Trivially copyable, for kernels.
struct StockView {
  StockCounters* counters = nullptr;
  Bucket** free = nullptr;  // shards × shard_capacity
  uint64_t shard_capacity = 0;
  Bucket** returned = nullptr;  // shards × shard_capacity

  ISOTHERM_HOST_DEVICE Bucket** list(uint32_t shard) const { return free + shard * shard_capacity; }
};

// What index/probe.h calls `lines`.
template <class Lane>
class TileStock {
 public:
  ISOTHERM_HOST_DEVICE TileStock(const TileLanes<Lane>& tile, const StockView& stock)
      : tile_(tile), stock_(stock), shard_(tile.lane().block() % StockCounters::shards) {}

  // Null when there are no more.
  ISOTHERM_HOST_DEVICE Bucket* take() {
    if (spare_ != nullptr) {
      Bucket* line = spare_;
      spare_ = nullptr;
      return line;
    }
    uint64_t line = 0;
    if (tile_.leads()) line = reinterpret_cast<uint64_t>(take_one());
    return reinterpret_cast<Bucket*>(tile_.share(line));
  }

  // A line that was never linked; only its first two slots were written.
  ISOTHERM_HOST_DEVICE void give(Bucket* line) {
    if (tile_.leads()) {
      store_pair(&line->slot[0], {0, 0});
      store_pair(&line->slot[1], {0, 0});
    }
    spare_ = line;
  }

  // A line that was unlinked, with its old contents.
  ISOTHERM_HOST_DEVICE void retire(Bucket* line) const {
    if (tile_.leads()) put_back(line);
  }

  // Before the kernel ends.
  ISOTHERM_HOST_DEVICE void close() {
    if (spare_ != nullptr && tile_.leads()) put_back(spare_);
    spare_ = nullptr;
  }

 private:
  ISOTHERM_HOST_DEVICE Bucket* take_one() {
    ISOTHERM_KEEP_ROLLED
    for (uint32_t i = 0; i < StockCounters::shards; ++i) {
      const uint32_t shard = (shard_ + i) % StockCounters::shards;
      int64_t* counter = &stock_.counters->shard[shard].free;
      if (Lane::load(counter) <= 0) continue;
      const int64_t free = Lane::atomic_add(counter, int64_t{-1});
      if (free > 0) return stock_.list(shard)[free - 1];
      Lane::atomic_add(counter, int64_t{1});
    }
    return nullptr;
  }
  ISOTHERM_HOST_DEVICE void put_back(Bucket* line) const {
    stock_.returned[Lane::atomic_add(&stock_.counters->returned, uint64_t{1})] = line;
  }

  const TileLanes<Lane>& tile_;
  const StockView& stock_;
  uint32_t shard_;
  Bucket* spare_ = nullptr;
};

}  // namespace isotherm
