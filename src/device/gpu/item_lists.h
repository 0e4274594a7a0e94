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
  uint64_t expired;   // that the sweep has freed, ever
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

// Takes the blocks of a slab out of the list of their class, all of which are free. One block; the
// others close up in their order, a window at a time, whose places have all been read before.
struct DropBlocksKernel {
  static constexpr uint32_t threads = 512;

  struct Shared {
    uint32_t kept[threads / 32];  // by each warp
  };

  ItemLists* lists = nullptr;
  uint32_t size_class = 0;
  uint64_t slab = 0;
  uint64_t slab_end = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    uint32_t* const in_warp = lane.template shared<Shared>()->kept;
    uint64_t* const list = lists->blocks[size_class];
    const uint64_t free = lists->free[size_class];
    const uint32_t warp = lane.thread() / 32;
    const uint32_t number = lane.thread() & 31;
    uint64_t kept = 0;
    for (uint64_t first = 0; first < free; first += threads) {
      const uint64_t i = first + lane.thread();
      const uint64_t location = i < free ? list[i] : slab;
      const bool keep = location < slab || location >= slab_end;
      const uint32_t peers = lane.ballot(whole_warp, keep);
      if (number == 0) in_warp[warp] = count_bits(peers);
      lane.sync_block();
      uint64_t before = kept;
      for (uint32_t w = 0; w < threads / 32; ++w) {
        if (w < warp) before += in_warp[w];
        kept += in_warp[w];
      }
      if (keep) list[before + count_below(peers, number)] = location;
      lane.sync_block();
    }
    if (lane.thread() == 0) lists->free[size_class] = kept;
  }
};

}  // namespace isotherm
