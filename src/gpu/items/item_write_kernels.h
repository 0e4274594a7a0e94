// Item write kernels: what a part with puts and erases needs before and after the index is asked;
// read gpu/items/item_part.h first.
#pragma once

#include <cstdint>

#include "gpu/items/item_part.h"
#include "gpu/items/warp_copy.h"

namespace isotherm {

// Writers enter their hashes into the writer table.
struct MarkItemsKernel {
  ItemPart part;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    warp_rows(lane, part.rows, [&](uint32_t row, bool mine) {
      const TableOp op = mine && part.verdict[row] == 0 ? part.op_of(row) : TableOp::get;
      if (op == TableOp::get) return;
      bool new_hash = false;
      const uint32_t slot =
          part.writers.insert<Lane>(part.hashes[row], part.hashes[row], row, new_hash);
      const uint32_t state = (new_hash ? 0 : writer_state::several) |
                             (is_conditional(op) ? writer_state::conditional : 0);
      if (state != 0) Lane::atomic_or(&part.states[slot], state);
    });
  }
};

// Finds the hashes that are exact, among those that somebody writes: several keys share them, or
// what one writer leaves decides whether another takes effect.
struct CompareItemsKernel {
  ItemPart part;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    warp_rows(lane, part.rows, [&](uint32_t row, bool mine) {
      if (!mine) return;
      uint32_t slot = WriterTable::none;
      if (part.verdict[row] == 0) slot = part.writers.find(part.hashes[row], part.hashes[row]);
      part.slots[row] = slot;
      if (slot == WriterTable::none || (is_sole(row, slot) && !depends(slot))) return;
      if ((Lane::atomic_or(&part.states[slot], writer_state::exact) & writer_state::exact) == 0) {
        Lane::atomic_add(&part.counts->exact_hashes, uint64_t{1});
      }
    });
  }

 private:
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool depends(uint32_t slot) const {
    constexpr uint32_t both = writer_state::several | writer_state::conditional;
    return (part.states[slot] & both) == both;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_sole(uint32_t row, uint32_t slot) const {
    const KeyView key = part.key(row);
    const uint32_t writer = part.writers.row(slot);
    if (writer != row && !(key == part.key(writer))) return false;
    if (part.first_found[row] != 1) return true;
    const ItemHead head = ItemHead::of(part.first[row]);
    return head.next() == 0 && key.is_key_of(head);
  }
};

// Counts the blocks that puts need, at most: whether conditions hold is not known before there is
// room for them.
struct CountItemsKernel {
  ItemPart part;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    warp_rows(lane, part.rows, [&](uint32_t row, bool mine) {
      const bool put = mine && part.verdict[row] == 0 && puts_item(part.op_of(row));
      const uint32_t size_class = put ? item_classes::class_of(part.shape(row).bytes()) : 0;
      draw(lane, part.counts->need, size_class, put);
    });
  }
};

// Takes blocks for puts and writes the items, all but their values; sets what the index is asked.
struct WriteItemsKernel {
  ItemPart part;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    warp_rows(lane, part.rows, [&](uint32_t row, bool mine) {
      TableOp op = mine && part.verdict[row] == 0 ? effect(row) : TableOp::get;
      const bool put = op == TableOp::put;
      ItemShape shape;
      if (put) shape = part.shape(row);
      const uint32_t size_class = put ? item_classes::class_of(shape.bytes()) : 0;
      const uint64_t number = draw(lane, part.counts->taken, size_class, put);
      if (!mine) return;
      uint64_t item = 0;
      if (put) {
        const ListOrder order = ListOrder::of(size_class, part.host_from);
        const FreeBlock block = part.lists->block(order, number);
        item = block.location;
        if (item != 0) {
          write(row, shape, block);
        } else {
          part.verdict[row] = reply_retry;
          op = TableOp::get;
        }
      }
      part.fresh[row] = item;
      part.index_ops[row] = part.is_exact(row) ? TableOp::get : op;
    });
  }

 private:
  // Of rows of exact hashes: whether an item is to be there, whatever their condition.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE TableOp effect(uint32_t row) const {
    const TableOp op = part.op_of(row);
    if (part.is_exact(row)) return puts_item(op) ? TableOp::put : TableOp::get;
    if (!is_conditional(op)) return op;
    const bool present = part.first_found[row] == 1;
    return part.decide(row, present, present ? ItemHead::of(part.first[row]) : ItemHead{});
  }

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void write(uint32_t row, const ItemShape& shape,
                                                  const FreeBlock& block) const {
    uint64_t* const words = item_words(block.location);
    shape.write(words, item_classes::is_on_host(block.list));
    uint64_t* const key = words + shape.head_words();
    part.key(row).each_word([&](uint64_t i, uint64_t word) {
      key[i] = word;
      return true;
    });
  }
};

// The values of new items.
struct PutJob {
  static constexpr bool pads = true;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Copy copy(const ItemPart& part, uint32_t row) const {
    const uint64_t item = part.fresh[row];
    if (item == 0) return {};
    return {ItemHead::of(item).value(), part.values.data(row),
            static_cast<uint32_t>(part.values.size(row))};
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static ByteRange readable(const ItemPart& part) {
    return part.values.readable();
  }
};

// Shortens the lists of free blocks by what was taken; a thread per class.
struct SettleTakesKernel {
  static constexpr uint32_t threads = 256;
  static_assert(threads >= item_classes::count);

  ItemPart part;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint32_t c = lane.thread();
    if (c >= item_classes::count) return;
    const ListOrder order = ListOrder::of(c, part.host_from);
    const uint64_t of_far = shorten(order.near, part.counts->taken[c]);
    shorten(order.far, of_far);
  }

 private:
  // Takes so many blocks off a list, or all that it has; of how many it had not.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t shorten(uint32_t list, uint64_t taken) const {
    const uint64_t listed = part.lists->listed(list);
    const uint64_t has = taken < listed ? taken : listed;
    part.lists->free[list] = listed - has;
    return taken - has;
  }
};

// Gives back the blocks of items that nobody can find any more.
struct FreeItemsKernel {
  ItemPart part;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    warp_rows(lane, part.rows, [&](uint32_t row, bool mine) {
      give_back(lane, *part.lists, mine ? part.old[row] : 0);
    });
  }
};

}  // namespace isotherm
