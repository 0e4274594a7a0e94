// DirectGetKernel: gets whose replies lie in slots of one size, which the host reads in place: one
// kernel for all that threads ask together (gpu/items/direct_asked.h), without a sum of lengths and
// without a count that the host waits for.
//
// Each lane looks a key up, by the tile of its neighbours (gpu/kernel/warp_find.h), and compares it
// with the item's; gpu/items/direct_delivery.h writes the slots.
//
// Expired items are shown; the caller looks at what it stores with them. The items of a table that
// evicts are marked. Threads. Nobody writes to the table meanwhile.
#pragma once

#include <cstdint>

#include "gpu/items/direct_asked.h"
#include "gpu/items/item_part.h"
#include "gpu/items/item_steps.h"
#include "gpu/kernel/bits.h"
#include "gpu/kernel/line_kind.h"

namespace isotherm {

struct DirectGetKernel {
  static constexpr uint32_t threads = DirectAsked::threads;

  struct Shared {
    LineKind::FindShared find;
    DirectDelivery::Warp warp[threads / 32];
  };

  ItemLookup items;
  DirectAsked asked;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    auto* const shared = lane.template shared<Shared>();
    const SteadyTile<Lane> tile(lane);
    asked.answer(lane, shared->warp[lane.thread() / 32], [&](const DirectAsked::Row& row) {
      KeyView key = row.key;
      Home home;
      if (row.mine) {
        key.hold_start();
        const uint64_t hash = items.hash.of_units(
            key.bytes, [&](uint64_t at, uint32_t) { return key.unit(at / unit_bytes); });
        home = items.index.home(items.index.hash(hash));
      }
      const Found first = LineKind::find<tile_lanes>(tile, shared->find, home);
      return row.mine ? answer(key, first.found ? first.word : 0) : DirectReply{};
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
