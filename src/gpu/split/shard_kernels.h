// Shard kernels: rows of a part put in order of the shard that their keys belong to, stably, and
// replies brought back to the rows that asked.
//
// A route says which shard a key belongs to: that of a table over several GPUs draws it from the
// low half of the hash, since a table's directory goes by the high bits; that of a table beyond the
// memory of its GPUs is in gpu/split/split_route.h. Each warp has a contiguous range of rows.
// CountShardsKernel counts the rows of each shard in each range; BeginShardsKernel turns the
// counts, in order of shard and range, into the places where they begin; SplitRowsKernel moves the
// rows there and notes for each row where it went. So a shard's rows keep their order, and
// ReturnRepliesKernel reads and writes whole stretches.
//
// Layout. counts[shard × warps + warp]. A shard's rows begin at a multiple of 32, so that copies of
// them are aligned. Limits. As many shards as a warp has lanes: each lane keeps the count of one.
#pragma once

#include <cstdint>

#include "base/hash.h"
#include "base/macros.h"
#include "gpu/batch/sort_kernels.h"
#include "gpu/kernel/bits.h"
#include "gpu/kernel/each_request.h"
#include "gpu/kernel/request_columns.h"
#include "isotherm/table_requests.h"

namespace isotherm {

ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t shard_of_hash(uint64_t hash, uint32_t shards) {
  return static_cast<uint32_t>(uint64_t{static_cast<uint32_t>(hash)} * shards >> 32);
}
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t shard_of(uint64_t key, uint64_t seed,
                                                       uint32_t shards) {
  return shard_of_hash(mix(key, seed), shards);
}

// What the host learns of a split.
struct ShardStretch {
  uint32_t begin = 0;
  uint32_t rows = 0;
};

struct HashRoute {
  uint64_t seed = 0;
  uint32_t shards = 0;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t operator()(uint64_t key) const {
    return shard_of(key, seed, shards);
  }
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void count(const Lane&, uint32_t, uint64_t) const {}
};

// A route has `shards`; route(key) is the shard of a key, and route.count(lane, row, key) sees
// every row once.
struct ShardLayout {
  static constexpr uint32_t most_shards = 32;
  static constexpr uint32_t alignment = 32;  // rows
  static constexpr uint32_t threads = 256;
  static constexpr uint32_t none = ~0u;  // the shard of no row
};

template <class Route = HashRoute>
struct ShardSplit : ShardLayout {
  Route route;
  uint32_t rows = 0;
  uint32_t warps = 0;  // of the grid
  const uint64_t* keys = nullptr;
  uint32_t* counts = nullptr;

  // Calls take(row, key, shard) for the rows of the warp's range, once per 32 rows in every lane.
  template <class Lane, class Take>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void each(const Lane& lane, Take&& take) const {
    constexpr uint32_t at_a_time = 4;
    const uint32_t number = lane.thread() & 31;
    const uint32_t per_warp = ((rows + warps - 1) / warps + 31) & ~31u;
    const uint64_t begin = uint64_t{per_warp} * warp(lane);
    const uint64_t end = begin + per_warp < rows ? begin + per_warp : rows;
    for (uint64_t first = begin; first < end; first += 32 * at_a_time) {
      uint64_t key[at_a_time];
      for (uint32_t k = 0; k < at_a_time; ++k) {
        const uint64_t row = first + k * 32 + number;
        key[k] = row < end ? keys[row] : 0;
      }
      for (uint32_t k = 0; k < at_a_time; ++k) {
        const uint64_t row = first + k * 32 + number;
        if (first + k * 32 >= end) break;
        take(static_cast<uint32_t>(row), key[k], row < end ? route(key[k]) : none);
      }
    }
  }

  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint32_t warp(const Lane& lane) {
    return (lane.block() * lane.threads() + lane.thread()) / 32;
  }
};

template <class Route>
struct CountShardsKernel {
  ShardSplit<Route> split;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint32_t number = lane.thread() & 31;
    uint32_t mine = 0;  // rows of the shard of this lane's number
    split.each(lane, [&](uint32_t row, uint64_t key, uint32_t shard) {
      if (shard != ShardLayout::none) split.route.count(lane, row, key);
      for (uint32_t s = 0; s < split.route.shards; ++s) {
        const uint32_t its = lane.ballot(whole_warp, shard == s);
        if (number == s) mine += count_bits(its);
      }
    });
    if (number < split.route.shards) split.counts[number * split.warps + split.warp(lane)] = mine;
  }
};

// One block.
template <class Route>
struct BeginShardsKernel {
  static constexpr uint32_t threads = SortPass::threads;
  struct Shared {
    BlockSums<uint32_t, threads> sums;
    uint32_t gap[ShardLayout::most_shards];  // rows left out before each shard
  };
  ShardSplit<Route> split;
  ShardStretch* stretches = nullptr;  // of each shard; memory that the host reads

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    auto* shared = lane.template shared<Shared>();
    const uint32_t size = split.route.shards * split.warps;
    const uint32_t per_thread = (size + threads - 1) / threads;
    const uint32_t begin = lane.thread() * per_thread;
    const uint32_t end = begin + per_thread < size ? begin + per_thread : size;
    uint32_t sum = 0;
    for (uint32_t i = begin; i < end; ++i) sum += split.counts[i];
    uint32_t before = sum_upto(lane, shared->sums, sum) - sum;
    for (uint32_t i = begin; i < end; ++i) {
      const uint32_t count = split.counts[i];
      split.counts[i] = before;
      before += count;
    }
    lane.sync_block();
    if (lane.thread() == 0) align(shared->gap);
    lane.sync_block();
    for (uint32_t i = begin; i < end; ++i) split.counts[i] += shared->gap[i / split.warps];
  }

 private:
  ISOTHERM_HOST_DEVICE void align(uint32_t* gap) const {
    uint32_t gaps = 0;
    for (uint32_t s = 0; s < split.route.shards; ++s) {
      const uint32_t first = split.counts[s * split.warps];
      const uint32_t next =
          s + 1 < split.route.shards ? split.counts[(s + 1) * split.warps] : split.rows;
      gap[s] = gaps;
      stretches[s] = {first + gaps, next - first};
      gaps += (0 - (next + gaps)) % ShardLayout::alignment;
    }
  }
};

template <class Route>
struct SplitRowsKernel {
  ShardSplit<Route> split;
  TableRequests from;  // columns that are given are moved
  RequestColumns home;
  uint32_t* places = nullptr;  // of each row, where it went, or would have gone, at home
  // The first rows of a shard go straight to its GPU where this one reaches it.
  uint64_t away_rows = 0;
  char* away[ShardLayout::most_shards] = {};  // columns for so many rows; null: all stay at home

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint32_t number = lane.thread() & 31;
    const bool counts = number < split.route.shards;
    // The places of the first row and of the next row of the shard of this lane's number.
    const uint32_t first = counts ? split.counts[number * split.warps] : 0;
    uint32_t next = counts ? split.counts[number * split.warps + split.warp(lane)] : 0;
    split.each(lane, [&](uint32_t row, uint64_t key, uint32_t shard) {
      uint32_t place = 0;
      uint32_t in_shard = 0;
      for (uint32_t s = 0; s < split.route.shards; ++s) {
        const uint32_t its = lane.ballot(whole_warp, shard == s);
        const uint32_t begin = lane.shuffle(whole_warp, next, s);
        const uint32_t shard_begin = lane.shuffle(whole_warp, first, s);
        if (shard == s) {
          place = begin + count_below(its, number);
          in_shard = place - shard_begin;
        }
        if (number == s) next += count_bits(its);
      }
      if (shard == ShardLayout::none) return;
      if (from.found != nullptr) places[row] = place;
      if (away[shard] != nullptr && in_shard < away_rows) {
        move(row, key, {away[shard], away_rows}, in_shard);
      } else {
        move(row, key, home, place);
      }
    });
  }

 private:
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void move(uint32_t row, uint64_t key,
                                                 const RequestColumns& to, uint32_t place) const {
    to.keys()[place] = key;
    if (from.values != nullptr) to.values()[place] = from.values[row];
    if (from.expected != nullptr) to.expected()[place] = from.expected[row];
    if (from.ops != nullptr) to.ops()[place] = from.ops[row];
  }
};

// Misses leave the caller's value untouched.
struct ReturnRepliesKernel {
  const uint32_t* places = nullptr;
  const uint64_t* values = nullptr;
  const uint8_t* found = nullptr;
  TableRequests to;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    each_request(lane, to.rows, [&](uint64_t row) {
      const uint32_t place = places[row];
      const uint8_t was = found[place];
      if (was == 1) to.values_out[row] = values[place];
      to.found[row] = was;
    });
  }
};

}  // namespace isotherm
