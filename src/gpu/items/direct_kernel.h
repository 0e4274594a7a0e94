// DirectGetKernel: gets whose replies lie in slots of one size, which the host reads in place: one
// kernel for all of a batch, without a sum of lengths and without a count that the host waits for.
//
// Each lane looks a key up, by the tile of its neighbours (gpu/kernel/warp_find.h), and compares it
// with the item's; gpu/items/direct_delivery.h writes the slots.
//
// Expired items are shown; the caller looks at what it stores with them. The items of a table that
// evicts are marked. Threads. Nobody writes to the table meanwhile.
#pragma once

#include <cstdint>

#include "gpu/items/direct_delivery.h"
#include "gpu/items/item_part.h"
#include "gpu/items/item_steps.h"
#include "gpu/kernel/bits.h"
#include "gpu/kernel/line_kind.h"

namespace isotherm {

struct DirectGetKernel {
  static constexpr uint32_t threads = 128;

  struct Shared {
    LineKind::FindShared find;
    DirectDelivery::Warp warp[threads / 32];
  };

  ItemLookup items;
  DirectAsked asked;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    auto* const shared = lane.template shared<Shared>();
    DirectDelivery::Warp& warp = shared->warp[lane.thread() / 32];
    const uint32_t number = lane.thread() & 31;
    const SteadyTile<Lane> tile(lane);
    const ByteRange readable = asked.readable();
    warp_rows(lane, asked.rows, [&](uint32_t row, bool mine) {
      KeyView key{asked.keys, 0, readable};
      Home home;
      if (mine) {
        const uint32_t at = asked.key_ends[row];
        key = {asked.keys + at, asked.key_ends[row + 1] - at, readable};
        home = items.index.home(items.index.hash(items.hash(key.data, key.bytes, readable)));
      }
      const Found first = LineKind::find<tile_lanes>(tile, shared->find, home);
      DirectReply reply;
      if (mine) reply = answer(key, first.found ? first.word : 0);
      asked.delivery.deliver(lane, warp, row - number, mine, reply);
    });
  }

 private:
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE DirectReply answer(const KeyView& key,
                                                          uint64_t first) const {
    const ItemPlace place = find_item(first, key);
    if (place.item == 0) return {};
    const ItemHead& item = place.head;
    if (items.evicts) item.mark_read();
    return {reinterpret_cast<const uint64_t*>(item.value()), item.value_bytes, item.flags()};
  }
};

}  // namespace isotherm
