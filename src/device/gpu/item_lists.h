// Item lists: the free blocks of device items, a list for each size class.
//
// A list is an array of locations with a counter. Within a kernel a list only shrinks or only
// grows: takers draw numbers from a counter of the part and read the list from its end; when all
// have drawn, SettleTakesKernel shortens the lists by what they took. Freed blocks are appended by
// a kernel at the end of the part, when nobody reads the old items any more.
//
// Threads. As said; lanes of a warp that want the same class draw together.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "device/gpu/bits.h"
#include "device/gpu/device_item.h"
#include "device/gpu/item_classes.h"

namespace isotherm {

// In device memory.
struct ItemLists {
  uint64_t free[item_classes::count];
  uint64_t* blocks[item_classes::count];
  int64_t items;      // in the table
  uint64_t evicted;   // ever
  uint64_t no_place;  // puts that the index had no place for, since items were evicted for that
};

// Draws numbers from one of several counters for the lanes of a warp that `want` one; all lanes
// call. Lanes that want none get 0.
template <class Lane>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t draw(const Lane& lane, uint64_t* counters,
                                                   uint32_t which, bool want) {
  const uint32_t number = lane.thread() & 31;
  const uint32_t peers = lane.match(whole_warp, want ? which : ~0u);
  const uint32_t leader = lowest_bit(peers);
  uint64_t first = 0;
  if (want && number == leader) {
    first = Lane::atomic_add(&counters[which], uint64_t{count_bits(peers)});
  }
  first = lane.shuffle(whole_warp, first, leader);
  return want ? first + count_below(peers, number) : 0;
}

// Gives the block of an item back to its list; all lanes of a warp call, those without an item with
// 0.
template <class Lane>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void give_back(const Lane& lane, ItemLists& lists,
                                                    uint64_t item) {
  if (lane.ballot(whole_warp, item != 0) == 0) return;
  const uint32_t size_class = item != 0 ? DeviceItem::at(item)->size_class() : 0;
  const uint64_t place = draw(lane, lists.free, size_class, item != 0);
  if (item == 0) return;
  DeviceItem::at(item)->meta = size_class;
  lists.blocks[size_class][place] = item;
}

// Cuts a slab into blocks and appends them to the list of their class.
struct AddBlocksKernel {
  ItemLists* lists = nullptr;
  uint32_t size_class = 0;
  uint64_t* blocks = nullptr;  // the list, from now on
  char* slab = nullptr;
  uint64_t first = 0;  // blocks that are free already
  uint64_t count = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint64_t stride = uint64_t{lane.blocks()} * lane.threads();
    const uint64_t begin = uint64_t{lane.block()} * lane.threads() + lane.thread();
    const uint64_t bytes = item_classes::bytes_of(size_class);
    for (uint64_t i = begin; i < count; i += stride) {
      // The first block comes to the end, where it is taken from first.
      const auto block = reinterpret_cast<uint64_t>(slab + (count - 1 - i) * bytes);
      DeviceItem::at(block)->meta = size_class;
      blocks[first + i] = block;
    }
    if (begin != 0) return;
    lists->free[size_class] = first + count;
    lists->blocks[size_class] = blocks;
  }
};

}  // namespace isotherm
