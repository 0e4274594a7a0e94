// DirectGetKernel: gets whose replies lie in slots of one size, which the host reads in place: one
// kernel for all of a batch, without a sum of lengths and without a count that the host waits for.
//
//   slot    bytes of the value, or `absent`, or `too_long` for the slot | flags | the value
//           (4)                                                          (4)
// Each lane looks a key up, by the tile of its neighbours (gpu/kernel/warp_find.h), and compares it
// with the item's. Then the 16-byte units of the warp's slots are dealt to its lanes one after the
// other, so slots are written in whole lines, over the bus or not.
//
// Expired items are shown; the caller looks at what it stores with them. The items of a table that
// evicts are marked. Threads. Nobody writes to the table meanwhile.
#pragma once

#include <cstdint>

#include "gpu/items/direct_gets.h"
#include "gpu/items/item_part.h"
#include "gpu/items/item_steps.h"
#include "gpu/kernel/bits.h"
#include "gpu/kernel/line_kind.h"

namespace isotherm {

struct DirectGetKernel {
  static constexpr uint32_t threads = 128;
  static constexpr uint32_t at_a_time = 4;

  struct Warp {
    uint32_t begin[32];   // the number of a lane's first unit among the warp's
    DirectHead head[32];  // of its reply
    const uint64_t* value[32];
  };
  struct Shared {
    LineKind::FindShared find;
    Warp warp[threads / 32];
  };

  ItemLookup items;
  const uint32_t* key_ends = nullptr;  // rows + 1; the first is 0
  const char* keys = nullptr;
  char* replies = nullptr;
  uint32_t stride = 0;
  uint32_t rows = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    auto* const shared = lane.template shared<Shared>();
    Warp& warp = shared->warp[lane.thread() / 32];
    const uint32_t number = lane.thread() & 31;
    const SteadyTile<Lane> tile(lane);
    const ByteRange readable{keys, keys + key_ends[rows]};
    warp_rows(lane, rows, [&](uint32_t row, bool mine) {
      KeyView key{keys, 0, readable};
      Home home;
      if (mine) {
        const uint32_t at = key_ends[row];
        key = {keys + at, key_ends[row + 1] - at, readable};
        home = items.index.home(items.index.hash(items.hash(key.data, key.bytes, readable)));
      }
      const Found first = LineKind::find<tile_lanes>(tile, shared->find, home);
      uint32_t units = 0;
      if (mine) units = answer(warp, number, key, first.found ? first.word : 0);
      deliver(lane, warp, row - number, units);
    });
  }

 private:
  // The units of the reply.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t answer(Warp& warp, uint32_t number,
                                                       const KeyView& key, uint64_t first) const {
    DirectHead head{DirectHead::absent, 0};
    const uint64_t* value = nullptr;
    uint64_t bytes = 0;
    if (const ItemPlace place = find_item(first, key); place.item != 0) {
      const ItemHead& item = place.head;
      if (items.evicts) item.mark_read();
      const bool fits = sizeof head + item.value_bytes <= stride;
      if (fits) bytes = item.value_bytes;
      head = {fits ? item.value_bytes : DirectHead::too_long, item.flags()};
      value = reinterpret_cast<const uint64_t*>(item.value());
    }
    warp.head[number] = head;
    warp.value[number] = value;
    return static_cast<uint32_t>(units_of(sizeof head + bytes));
  }

  // The head with the first word of the value, or two words of it.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static Pair unit_of(const Warp& warp, uint32_t of,
                                                           uint32_t unit) {
    const DirectHead head = warp.head[of];
    const uint64_t words = head.bytes >= DirectHead::too_long ? 0 : words_of(head.bytes);
    const uint64_t* const value = warp.value[of];
    const auto word = [&](uint64_t i) { return i < words ? load_steady_word(value + i) : 0; };
    if (unit == 0) return {uint64_t{head.flags} << 32 | head.bytes, word(0)};
    return {word(2 * unit - 1), word(2 * unit)};
  }

  // Deals the units of the warp's replies to its lanes; `first`: the row of lane 0.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void deliver(const Lane& lane, Warp& warp, uint32_t first,
                                                    uint32_t units) const {
    const uint32_t number = lane.thread() & 31;
    uint32_t upto = units;
    for (uint32_t step = 1; step < 32; step *= 2) {
      const uint32_t other = lane.shuffle(whole_warp, upto, number >= step ? number - step : 0);
      if (number >= step) upto += other;
    }
    const uint32_t all = lane.shuffle(whole_warp, upto, 31);
    warp.begin[number] = upto - units;
    lane.sync_warp(whole_warp);
    for (uint32_t begin = number; begin < all; begin += 32 * at_a_time) {
      Pair data[at_a_time] = {};
      Pair* to[at_a_time] = {};
      for (uint32_t k = 0; k < at_a_time; ++k) {
        const uint32_t at = begin + 32 * k;
        if (at >= all) continue;
        const uint32_t of = owner_of(warp, at);
        const uint32_t unit = at - warp.begin[of];
        data[k] = unit_of(warp, of, unit);
        char* const slot = replies + uint64_t{first + of} * stride;
        to[k] = reinterpret_cast<Pair*>(slot) + unit;
      }
      for (uint32_t k = 0; k < at_a_time; ++k) {
        if (to[k] != nullptr) *to[k] = data[k];
      }
    }
    lane.sync_warp(whole_warp);
  }

  // The last lane that begins at or before the unit: those without units come before it.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint32_t owner_of(const Warp& warp, uint32_t unit) {
    uint32_t of = 0;
    for (uint32_t step = 16; step != 0; step /= 2) {
      if (warp.begin[of + step] <= unit) of += step;
    }
    return of;
  }
};

}  // namespace isotherm
