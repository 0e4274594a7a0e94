// Item lists: the free blocks of device items, two lists for each size class: of blocks in device
// memory and in host memory (gpu/items/item_classes.h).
//
// A list is an array of locations, in the memory where its blocks lie, with a counter. Within a
// kernel a list only shrinks or only grows: takers draw numbers from a counter of the part, one for
// both lists of a class, and read the list that is to be taken first from its end, and then the
// other; so a class whose blocks all lie on the device costs nothing more. When all have drawn,
// SettleTakesKernel shortens the lists by what they took. Freed blocks are appended by a kernel at
// the end of the part, when nobody reads the old items any more.
//
// A list of device memory has room for a 16th of its blocks only, and for a part's rows at least: a
// location takes 8 bytes, and nearly all blocks have an item. Blocks that are freed when it is full
// are unlisted: they are free, counted, and in no list. When the list runs short they are gathered
// by a look at all blocks (GatherBlocksKernel), which came to be no more often than the list was
// emptied once. The counter of a list that is full may stand above its capacity.
//
// Between parts, or before a part takes any, every block is live, listed, unlisted, or fresh: in no
// list since its slab was made, which the host knows. So a slab none of whose blocks is live can be
// taken from its class. Bit 1 of a free block's head says that it is listed.
//
// Threads. As said; lanes of a warp that want the same class draw together.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "gpu/items/device_item.h"
#include "gpu/items/item_classes.h"
#include "gpu/kernel/bits.h"

namespace isotherm {

// The lists of a class, in the order in which blocks are taken.
struct ListOrder {
  uint32_t near;
  uint32_t far;

  // Classes from `host_from` on take host memory first.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static ListOrder of(uint32_t size_class,
                                                           uint32_t host_from) {
    const bool host_first = size_class >= host_from;
    return {item_classes::list_of(size_class, host_first),
            item_classes::list_of(size_class, !host_first)};
  }
};

struct FreeBlock {
  uint64_t location = 0;  // 0: there is none
  uint32_t list = 0;
};

inline constexpr uint64_t listed_bit = item_head::read_bit;

// Free blocks by list, as the host is told.
struct FreeBlocks {
  uint64_t listed[item_classes::lists];
  uint64_t unlisted[item_classes::lists];
};

// In device memory.
struct ItemLists {
  uint64_t free[item_classes::lists];
  uint64_t capacity[item_classes::lists];
  uint64_t unlisted[item_classes::lists];
  uint64_t* blocks[item_classes::lists];
  int64_t items;      // in the table
  uint64_t evicted;   // ever
  uint64_t expired;   // that the sweep has freed, ever
  uint64_t counted;   // by the last count of items
  uint64_t no_place;  // puts that the index had no place for, since items were evicted for that

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t listed(uint32_t list) const {
    return free[list] < capacity[list] ? free[list] : capacity[list];
  }
  // The `number`th free block of a class, from the ends of its lists.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE FreeBlock block(ListOrder order, uint64_t number) const {
    const uint64_t near = listed(order.near);
    if (number < near) return {blocks[order.near][near - 1 - number], order.near};
    number -= near;
    const uint64_t far = listed(order.far);
    if (number < far) return {blocks[order.far][far - 1 - number], order.far};
    return {};
  }
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
  const uint32_t list = item != 0 ? ItemHead::of(item).list() : 0;
  const uint64_t place = draw(lane, lists.free, list, item != 0);
  const bool fits = item != 0 && place < lists.capacity[list];
  draw(lane, lists.unlisted, list, item != 0 && !fits);
  if (item == 0) return;
  *item_words(item) = fits ? listed_bit : 0;
  if (fits) lists.blocks[list][place] = item;
}

// Appends blocks, one behind the other in a slab, to their list, and makes its array known.
struct AddBlocksKernel {
  ItemLists* lists = nullptr;
  uint32_t list = 0;
  uint64_t* blocks = nullptr;  // its array, from now on
  uint64_t capacity = 0;
  char* begin = nullptr;
  uint64_t listed = 0;  // already
  uint64_t count = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint64_t stride = uint64_t{lane.blocks()} * lane.threads();
    const uint64_t number = uint64_t{lane.block()} * lane.threads() + lane.thread();
    const uint64_t bytes = item_classes::bytes_of(item_classes::class_of_list(list));
    for (uint64_t i = number; i < count; i += stride) {
      // The first block comes to the end, where it is taken from first.
      const auto block = reinterpret_cast<uint64_t>(begin + (count - 1 - i) * bytes);
      *item_words(block) = listed_bit;
      blocks[listed + i] = block;
    }
    if (number != 0) return;
    lists->free[list] = count != 0 ? listed + count : lists->listed(list);
    lists->capacity[list] = capacity;
    lists->blocks[list] = blocks;
  }
};

// Appends the unlisted blocks among those of a slab to their list, as long as it has room.
struct GatherBlocksKernel {
  ItemLists* lists = nullptr;
  uint32_t list = 0;
  char* slab = nullptr;
  uint64_t count = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint64_t bytes = item_classes::bytes_of(item_classes::class_of_list(list));
    const uint64_t stride = uint64_t{lane.blocks()} * lane.threads();
    const uint32_t number = lane.thread() & 31;
    const uint64_t begin = uint64_t{lane.block()} * lane.threads() + lane.thread() - number;
    const uint64_t capacity = lists->capacity[list];
    for (uint64_t first = begin; first < count; first += stride) {
      const bool full = Lane::load(&lists->free[list]) >= capacity;
      if (lane.ballot(whole_warp, full) != 0) return;
      const uint64_t i = first + number;
      const auto block = reinterpret_cast<uint64_t>(slab + i * bytes);
      const bool want = i < count && (*item_words(block) & (item_head::live_bit | listed_bit)) == 0;
      const uint64_t place = draw(lane, lists->free, list, want);
      const bool fits = want && place < capacity;
      const uint32_t gathered = count_bits(lane.ballot(whole_warp, fits));
      if (gathered != 0 && number == 0) {
        Lane::atomic_add(&lists->unlisted[list], ~uint64_t{gathered} + 1);
      }
      if (!fits) continue;
      *item_words(block) = listed_bit;
      lists->blocks[list][place] = block;
    }
  }
};

// Takes the blocks of a slab out of their list, all of which are free. One block of threads; the
// others close up in their order, a window at a time, whose places have all been read before.
struct DropBlocksKernel {
  static constexpr uint32_t threads = 512;

  struct Shared {
    uint32_t kept[threads / 32];  // by each warp
  };

  ItemLists* lists = nullptr;
  uint32_t list = 0;
  uint64_t slab = 0;
  uint64_t slab_end = 0;
  uint64_t given = 0;  // its blocks that are not fresh

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    uint32_t* const in_warp = lane.template shared<Shared>()->kept;
    uint64_t* const blocks = lists->blocks[list];
    const uint64_t free = lists->listed(list);
    const uint32_t warp = lane.thread() / 32;
    const uint32_t number = lane.thread() & 31;
    uint64_t kept = 0;
    for (uint64_t first = 0; first < free; first += threads) {
      const uint64_t i = first + lane.thread();
      const uint64_t location = i < free ? blocks[i] : slab;
      const bool keep = location < slab || location >= slab_end;
      const uint32_t peers = lane.ballot(whole_warp, keep);
      if (number == 0) in_warp[warp] = count_bits(peers);
      lane.sync_block();
      uint64_t before = kept;
      for (uint32_t w = 0; w < threads / 32; ++w) {
        if (w < warp) before += in_warp[w];
        kept += in_warp[w];
      }
      if (keep) blocks[before + count_below(peers, number)] = location;
      lane.sync_block();
    }
    if (lane.thread() != 0) return;
    lists->free[list] = kept;
    lists->unlisted[list] -= given - (free - kept);
  }
};

}  // namespace isotherm
