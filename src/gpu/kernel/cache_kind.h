// CacheKind: cache indexes (index/cache_unit.h) as index kinds (gpu/kernel/index_kind.h): of a
// fixed size, evicting. CuckooKind and SetKind are the ones that there are.
//
// Lookups and writes of present keys take no lock: units of `lanes` lanes look, each for rows of
// its tile, and a lane writes its own entry, by a compare-and-swap of the pair, since another
// tile's new key may take the entry's place. New keys and erased ones are the business of a tile,
// which holds the part's lock; but where no tile does either meanwhile, a lane puts a new key by
// itself if the kind knows how (`insert_alone`). No claims: which rows of a batch are of one key is
// found out first.
//
// An entry may be evicted as soon as it is written. A batch that reads a key's state, and writes
// what follows from it later, puts the entry back then.
#pragma once

#include <cstdint>

#include "base/hash.h"
#include "base/tile_lanes.h"
#include "gpu/kernel/lane_unit.h"
#include "gpu/kernel/request_op.h"
#include "gpu/kernel/settle_kernels.h"
#include "gpu/kernel/table_update.h"
#include "index/cuckoo_part.h"
#include "index/set_part.h"

namespace isotherm {

struct alignas(128) CacheCounts {
  static constexpr uint32_t shards = 64;
  int64_t entries = 0;
  uint64_t evicted = 0;
  uint64_t moved = 0;
};

template <class Part>
struct CacheHome {
  Part* part = nullptr;
  uint64_t hash = 0;
  uint64_t time = 0;
  uint64_t slack = 0;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_given() const { return part != nullptr; }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void clear() { part = nullptr; }
};

template <class Part>
struct CacheView {
  Part* parts = nullptr;
  uint64_t count = 0;
  uint64_t seed = 0;
  uint64_t time = 0;   // of the first row
  uint64_t slack = 0;  // of lookups
  CacheCounts* counts = nullptr;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t hash(uint64_t key) const { return mix(key, seed); }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE CacheHome<Part> home(uint64_t hash, uint64_t row = 0) const {
    return {parts + part_of_hash(hash, count), hash, time + row, slack};
  }
};

// Where a lane may write: over the entry of its key.
struct CacheWritePlace {
  Pair* slot = nullptr;
  uint64_t word = 0;
  bool found = false;
  uint32_t empty = 0;  // see CachePlace
};

// A tile changes entries; see TableUpdate.
template <class Part, class Lane>
class CacheUpdate {
 public:
  ISOTHERM_HOST_DEVICE CacheUpdate(const SoleWriterTile<Lane>& tile, const CacheView<Part>& view)
      : tile_(tile), view_(view), unit_(tile.lane()) {}

  template <class Loaded, class After>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE KeyState run(const CacheHome<Part>& home,
                                                    const Loaded& /*loaded*/, After&& after) {
    const Found before =
        update_part(unit_, *home.part, home.hash, home.time, tally_,
                    [&](bool found, uint64_t word) -> Decision {
                      const KeyState to = after(KeyState{word, static_cast<uint8_t>(found)});
                      if (to.found == 0) return {found ? Action::erase : Action::keep, 0};
                      return {found && to.value == word ? Action::keep : Action::store, to.value};
                    });
    return {before.word, static_cast<uint8_t>(before.found)};
  }
  // Beside tiles no lane inserts or erases by itself.
  ISOTHERM_HOST_DEVICE void count(int32_t /*entries*/) {}

  ISOTHERM_HOST_DEVICE void close() {
    if (!tile_.leads()) return;
    CacheCounts& to = view_.counts[tile_.lane().block() % CacheCounts::shards];
    if (tally_.entries != 0) Lane::atomic_add(&to.entries, tally_.entries);
    if (tally_.evicted != 0) Lane::atomic_add(&to.evicted, tally_.evicted);
    if (tally_.moved != 0) Lane::atomic_add(&to.moved, tally_.moved);
    tally_ = {};
  }

 private:
  const SoleWriterTile<Lane>& tile_;
  const CacheView<Part>& view_;
  const LaneUnit<Lane, tile_lanes, false> unit_;
  CacheTally tally_;
};

struct CacheTotals {
  const CacheCounts* counts = nullptr;
  TableTotals* to = nullptr;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void sum_up(const Lane& lane) const {
    CacheCounts sum;
    for (uint32_t i = lane.thread(); i < CacheCounts::shards; i += 32) {
      sum.entries += counts[i].entries;
      sum.evicted += counts[i].evicted;
      sum.moved += counts[i].moved;
    }
    for (uint32_t step = 16; step != 0; step /= 2) {
      const uint32_t other = lane.thread() ^ step;
      sum.entries += lane.shuffle(whole_warp, sum.entries, other);
      sum.evicted += lane.shuffle(whole_warp, sum.evicted, other);
      sum.moved += lane.shuffle(whole_warp, sum.moved, other);
    }
    if (lane.thread() != 0) return;
    *to = {static_cast<uint64_t>(sum.entries), 0, 0, sum.evicted, sum.moved};
  }
};

// Entries by number. One lane: walks are rare.
template <class Part, class Room>
struct CacheScan {
  static constexpr uint32_t threads = 32;

  CacheView<Part> view;
  uint64_t bound = 0;
  uint64_t lines = 0;
  uint64_t wanted = 0;
  Room room;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    if (lane.thread() != 0) return;
    const uint64_t all = view.count * Part::entries;
    uint64_t count = 0;
    uint64_t at = bound;
    EntryBits<Part::entries> in_use;
    for (; at < all && at - bound < lines * 8 && count < wanted && count < room.entries; ++at) {
      const Part& part = view.parts[at / Part::entries];
      const auto number = static_cast<uint32_t>(at % Part::entries);
      if (at == bound || number == 0) in_use = part.in_use();
      if (!in_use.has(number)) continue;
      room.hashes[count] = part.entry[number].first;
      room.values[count] = part.entry[number].second;
      ++count;
    }
    *room.result = {count, at < all ? at : 0, 0};
  }
};

// What lookups are for: the entry of a key, the one that has its signature, or a place to put it.
enum class CacheLookup : uint8_t { key, signature, place };

template <CacheLookup purpose, class Part, class Unit>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE CachePlace find_for(const Unit& unit, Part* part,
                                                         uint64_t hash) {
  if constexpr (purpose == CacheLookup::place && requires { Part::find_place(unit, part, hash); }) {
    return Part::find_place(unit, part, hash);
  } else {
    return Part::template find<purpose != CacheLookup::signature>(unit, part, hash);
  }
}

// What each lane's home has, found by units of `lanes` lanes; of the first `rows_per_tile` lanes of
// each tile. `slack`: see SetPart. All lanes of a warp call.
template <uint32_t lanes, uint32_t rows_per_tile, CacheLookup purpose, class Part, class Lane>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE CachePlace find_cached(const TileLanes<Lane>& tile,
                                                            const CacheHome<Part>& home,
                                                            uint64_t slack) {
  const LaneUnit<Lane, lanes, true> unit(tile.lane());
  const auto look = [&](Part* part, uint64_t hash, uint64_t time) {
    const CachePlace place = find_for<purpose>(unit, part, hash);
    if (place.found) Part::touch(unit, *part, place, time, slack);
    return place;
  };
  if constexpr (lanes == 1) {
    return look(home.part, home.hash, home.time);
  } else {
    constexpr uint32_t units = tile_lanes / lanes;
    const uint32_t source = tile.number() % units * lanes;  // of the unit that looks for this lane
    CachePlace mine;
    for (uint32_t first = 0; first < rows_per_tile; first += units) {
      const uint32_t owner = first + tile.number() / lanes;
      const uint64_t part = tile.from(reinterpret_cast<uint64_t>(home.part), owner % tile_lanes);
      uint64_t time = 0;
      if constexpr (Part::by_time) time = tile.from(home.time, owner % tile_lanes);
      const CachePlace place = look(owner < rows_per_tile ? reinterpret_cast<Part*>(part) : nullptr,
                                    tile.from(home.hash, owner % tile_lanes), time);
      CachePlace its;
      if constexpr (purpose == CacheLookup::signature) its.hash = tile.from(place.hash, source);
      its.word = tile.from(place.word, source);
      // What else is asked of a lookup, by one shuffle.
      const uint32_t told =
          tile.from(place.empty << 16 | place.entry << 1 | (place.found ? 1 : 0), source);
      its.empty = told >> 16;
      its.entry = told >> 1 & 0x7fff;
      its.found = (told & 1) != 0;
      if (tile.number() / units == first / units) mine = its;
    }
    return mine;
  }
}

struct ScanRoom;
template <class Device, class Part>
class CacheOwner;

template <class Part, uint32_t lanes>
struct CacheKind {
  struct Nothing {};
  // Of a lookup's kernel; units need registers to hand over what they found.
  static constexpr uint32_t find_blocks = lanes == 1 ? 8 : 6;
  using View = CacheView<Part>;
  using Home = CacheHome<Part>;
  using Totals = CacheTotals;
  using FindShared = Nothing;
  using PlaceShared = Nothing;
  template <class Lane>
  using Update = CacheUpdate<Part, Lane>;
  template <class Device>
  using Owner = CacheOwner<Device, Part>;  // gpu/table/cache_owner.h
  using Scan = CacheScan<Part, ScanRoom>;

  template <uint32_t rows_per_tile, class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static Found find(const SteadyTile<Lane>& tile,
                                                         FindShared& /*shared*/, const Home& home) {
    const CachePlace place =
        find_cached<lanes, rows_per_tile, CacheLookup::key>(tile, home, home.slack);
    return {place.found, place.word};
  }
  // The same without a comparison: what has the key's signature, with the hash of its key.
  template <uint32_t rows_per_tile, class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static CachePlace find_stored(const SteadyTile<Lane>& tile,
                                                                     const Home& home) {
    return find_cached<lanes, rows_per_tile, CacheLookup::signature>(tile, home, home.slack);
  }
  template <uint32_t rows_per_tile, uint32_t at_a_time, class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static CacheWritePlace find_place(
      const SoleWriterTile<Lane>& tile, PlaceShared& /*shared*/, const Home& home) {
    const CachePlace place = find_cached<lanes, rows_per_tile, CacheLookup::place>(tile, home, 0);
    if (!place.found) return {nullptr, 0, false, place.empty};
    return {&home.part->entry[place.entry], place.word, true, 0};
  }
  template <uint32_t rows_per_tile, uint32_t at_a_time, class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static CacheWritePlace find_first_place(
      const SoleWriterTile<Lane>& /*tile*/, PlaceShared& /*shared*/, const Home& /*home*/) {
    return {};
  }
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static bool write(const CacheWritePlace& place,
                                                         const Home& home, KeyState to) {
    if (!place.found || to.found == 0) return place.found == (to.found != 0);
    if (to.value == place.word) return true;
    return exchange_pair_alone(place.slot, {home.hash, place.word}, {home.hash, to.value});
  }
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static bool insert_alone(const CacheWritePlace& place,
                                                                const Home& home,
                                                                uint64_t value) requires requires {
    Part::template insert_alone<Lane>(*home.part, Pair(), 0u);
  }
  { return Part::template insert_alone<Lane>(*home.part, {home.hash, value}, place.empty); }
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static bool claim(const CacheWritePlace& /*place*/,
                                                         const Home& /*home*/, uint64_t /*value*/) {
    return false;
  }
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static Nothing load(const SoleWriterTile<Lane>& /*tile*/,
                                                           const Home& /*home*/) {
    return {};
  }
  template <class Lane, class Work>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static void tile_rows(const SoleWriterTile<Lane>& tile,
                                                             const Home& home, Work&& work) {
    for (uint32_t owner = 0; owner < tile_lanes; ++owner) {
      const uint64_t part = tile.from(reinterpret_cast<uint64_t>(home.part), owner);
      const Home its{reinterpret_cast<Part*>(part), tile.from(home.hash, owner),
                     tile.from(home.time, owner), 0};
      if (its.is_given()) work(owner, its, Nothing{});
    }
  }
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static void count(const SoleWriterTile<Lane>& tile,
                                                         const View& view, int32_t entries) {
    const int32_t sum = sum_in_tile(tile, entries);
    if (!tile.leads() || sum == 0) return;
    Lane::atomic_add(&view.counts[tile.lane().block() % CacheCounts::shards].entries, int64_t{sum});
  }
};

// 4 lanes read a bucket of 64 bytes in one access.
template <uint32_t lanes = 4>
using CuckooKind = CacheKind<CuckooPart, lanes>;
using SetKind = CacheKind<SetPart, 1>;

}  // namespace isotherm
