// WritePlace: where a lane may write its key's new state by itself.
//
// Nearly every write finds its entry, or else a free slot, in the lines of its chain. So the tile
// only looks, and each lane then writes its own slot: a store over its entry (its key has no other
// writer, and entries leave only the last slot, where it takes a compare-and-swap of the pair), a
// compare-and-swap on a free slot. Where that fails, a tile has to do it
// (gpu/kernel/table_update.h).
#pragma once

#include <cstdint>

#include "gpu/kernel/bits.h"
#include "gpu/kernel/request_op.h"
#include "gpu/kernel/warp_find.h"

namespace isotherm {

struct WritePlace {
  Slot* slot;     // the entry's, else a free one, else null
  uint64_t word;  // while there is no entry: what picks among free slots
  bool found;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool in_last_slot() const {
    return reinterpret_cast<uint64_t>(slot) % sizeof(Bucket) == Bucket::last * sizeof(Slot);
  }
};

// Takes the key from the state that `place` shows to `to`; false: a tile has to.
//
// A free slot is claimed by its hash alone, which is cheaper than by both words: nobody but the
// claimer looks for the key, and only the last slot is ever copied by another tile.
template <class Lane>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool write_at(const WritePlace& place, uint64_t hash,
                                                   KeyState to) {
  if (place.found) {
    if (to.found != 0 && to.value == place.word) return true;
    const Slot slot = to.found != 0 ? Slot{hash, to.value} : Slot{0, 0};
    if (place.in_last_slot()) return exchange_pair_alone(place.slot, {hash, place.word}, slot);
    store_pair(place.slot, slot);
    return true;
  }
  if (to.found == 0) return true;
  if (place.slot == nullptr) return false;
  if (place.in_last_slot()) return exchange_pair_alone(place.slot, {0, 0}, {hash, to.value});
  if (Lane::compare_exchange(&place.slot->first, uint64_t{0}, hash) != 0) return false;
  place.slot->second = to.value;
  return true;
}

// The lane that has the entry, or one that has a free slot, says so. Which of a line's free slots
// is mostly left to the key's hash: writers that all took the first would be in each other's way.
template <class Lane>
struct WritePlaceLook {
  const SoleWriterTile<Lane>& tile;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void operator()(WritePlace& to, Bucket* line, Pair view,
                                                       bool hit, bool any_hit) const {
    const uint32_t number = tile.number();
    const bool free = !any_hit && line != nullptr && view.first == 0;
    const uint32_t frees = tile.lane().ballot(whole_warp, free) & tile.mask();
    if (hit) to = {&line->slot[number], view.second, true};
    const uint64_t pick = free ? (to.word & 0xFF) * count_bits(frees) >> 8 : 0;
    const bool picked = free && count_below(frees, tile.lane().thread() & 31) == pick;
    if (picked && to.slot == nullptr) to.slot = &line->slot[number];
  }
};

// Claims the first slot from that of `place` on that is free, up to the end of its line, for a key
// that the chain has not; see gpu/batch/try_kernels.h. False where another row of the key was
// faster, or none is free.
template <class Lane>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool claim_from(const WritePlace& place, uint64_t hash,
                                                     uint64_t value) {
  Slot* slot = place.slot;
  ISOTHERM_KEEP_ROLLED
  for (;; ++slot) {
    const uint64_t seen = Lane::compare_exchange(&slot->first, uint64_t{0}, hash);
    if (seen == 0) break;
    const bool last = WritePlace{slot, 0, false}.in_last_slot();
    if (seen == hash || last) return false;
  }
  slot->second = value;
  return true;
}

// A warp that writes large parts has so many lines on their way. It needs more registers for them
// than a lookup's, so fewer warps fit, which is faster: their writes are in each other's way.
inline constexpr uint32_t write_lines_at_a_time = 4;

// For each lane of a warp whose home has a line. `pick`: what picks among free slots; its lowest
// byte being 0, the first of the chain.
template <uint32_t rows_per_tile, uint32_t at_a_time, class Lane>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE WritePlace find_picked_place(const SoleWriterTile<Lane>& tile,
                                                                  FindShared<WritePlace>& shared,
                                                                  const Home& home, uint64_t pick) {
  const uint32_t thread = tile.lane().thread();
  shared.home[thread] = home;
  shared.answer[thread] = {nullptr, pick, false};
  warp_find<rows_per_tile, at_a_time>(tile, shared, WritePlaceLook<Lane>{tile});
  WritePlace at = shared.answer[thread];
  if (!at.found) at.word = 0;
  return at;
}

// The same with a free slot that the hash picks.
template <uint32_t rows_per_tile = tile_lanes, uint32_t at_a_time = 2, class Lane>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE WritePlace find_write_place(const SoleWriterTile<Lane>& tile,
                                                                 FindShared<WritePlace>& shared,
                                                                 const Home& home) {
  return find_picked_place<rows_per_tile, at_a_time>(tile, shared, home, home.hash);
}

// The same with the first free slot of the chain.
template <uint32_t rows_per_tile, uint32_t at_a_time, class Lane>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE WritePlace find_first_place(const SoleWriterTile<Lane>& tile,
                                                                 FindShared<WritePlace>& shared,
                                                                 const Home& home) {
  return find_picked_place<rows_per_tile, at_a_time>(tile, shared, home, 0);
}

}  // namespace isotherm
