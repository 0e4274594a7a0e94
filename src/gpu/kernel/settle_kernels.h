// ShelveKernel and TotalsKernel: run between kernels that take from the stock of lines.
//
// ShelveKernel clears what was returned and puts it, and `fresh_count` lines from `fresh` on, which
// are clear, on the free lists; a full list passes a line on to the next. TotalsKernel, one warp,
// sums up what the host wants to know; parts do that in their last kernel.
#pragma once

#include <cstdint>

#include "gpu/kernel/bits.h"
#include "gpu/kernel/table_view.h"

namespace isotherm {

struct TableTotals {
  uint64_t entries = 0;
  uint64_t free_lines = 0;
  uint64_t linked_lines = 0;
  uint64_t evicted = 0;  // by indexes of a fixed size, since they were made
  uint64_t moved = 0;    // likewise, to make room for others
};

struct ShelveKernel {
  TableView table;
  Bucket* fresh = nullptr;
  uint64_t fresh_count = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint64_t returned = table.stock.counters->returned;
    const uint64_t lines = returned + fresh_count;
    const uint64_t stride = uint64_t{lane.blocks()} * lane.threads();
    for (uint64_t i = uint64_t{lane.block()} * lane.threads() + lane.thread(); i < lines;
         i += stride) {
      Bucket* line = i < returned ? table.stock.returned[i] : fresh + (i - returned);
      if (i < returned) clear(line);
      shelve<Lane>(line, static_cast<uint32_t>(i % StockCounters::shards));
    }
  }

 private:
  ISOTHERM_HOST_DEVICE static void clear(Bucket* line) {
    for (Slot& slot : line->slot) slot = {0, 0};
  }

  // The lists together have more room than there are lines.
  template <class Lane>
  ISOTHERM_HOST_DEVICE void shelve(Bucket* line, uint32_t shard) const {
    for (;; shard = (shard + 1) % StockCounters::shards) {
      int64_t* free = &table.stock.counters->shard[shard].free;
      const int64_t at = Lane::atomic_add(free, int64_t{1});
      if (at < static_cast<int64_t>(table.stock.shard_capacity)) {
        table.stock.list(shard)[at] = line;
        return;
      }
      Lane::atomic_add(free, int64_t{-1});
    }
  }
};

// What the host wants to know of a table, summed up by one warp.
struct Totals {
  TableView table;
  uint64_t lines = 0;    // of the stock, in chains and free
  bool shelved = false;  // what was returned is on the free lists
  TableTotals* to = nullptr;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void sum_up(const Lane& lane) const {
    constexpr uint32_t lanes = 32;
    StockCounters& counters = *table.stock.counters;
    int64_t entries = 0;
    int64_t free = 0;
    for (uint32_t i = lane.thread(); i < CountShard::shards; i += lanes) {
      entries += table.counts[i].entries;
    }
    for (uint32_t i = lane.thread(); i < StockCounters::shards; i += lanes) {
      free += counters.shard[i].free;
    }
    for (uint32_t step = lanes / 2; step != 0; step /= 2) {
      entries += lane.shuffle(whole_warp, entries, lane.thread() ^ step);
      free += lane.shuffle(whole_warp, free, lane.thread() ^ step);
    }
    if (lane.thread() != 0) return;
    if (shelved) counters.returned = 0;
    const auto free_lines = static_cast<uint64_t>(free);
    *to = {static_cast<uint64_t>(entries), free_lines, lines - free_lines - counters.returned};
  }
};

template <class Totals>
struct TotalsKernel {
  static constexpr uint32_t threads = 32;
  Totals totals;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    totals.sum_up(lane);
  }
};

}  // namespace isotherm
