// Item exact kernels: the rows of a part whose hash several keys share, one by one.
//
// A hash that is shared and written by the part is left out when the index is asked. Then one lane
// works off all rows of such hashes in arrival order, over chains of items. It begins with the
// chain that the index had before the part; puts and erases change the chain, and what a row finds
// is its answer, as the index's answers are for the other rows. The first items of the new chains
// are columns of a batch for the index: `put`, or `erase` where a chain has become empty. Where the
// index has no room for a hash, it had none of its items before, so the hash's rows are answered
// reply_retry and nothing is lost.
//
// Limits. One lane works off fewer than a million rows a second. Of 100 million keys two share a
// hash with a probability of 1 in 3,700, unless somebody knows the seed.
#pragma once

#include <cstdint>

#include "gpu/items/item_part.h"

namespace isotherm {

// A row for each shared hash that was begun, in the order of their first rows.
struct ExactChains {
  uint64_t* hashes = nullptr;
  uint64_t* first = nullptr;  // items, or 0
  DeviceOp* ops = nullptr;
  uint64_t* replies = nullptr;  // of the index
  uint8_t* found = nullptr;
};

// One warp.
struct ExactKernel {
  static constexpr uint32_t threads = 32;

  ItemPart part;
  ExactChains chains;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    uint32_t begun = 0;
    warp_rows(lane, part.rows, [&](uint32_t row, bool mine) {
      const bool wanted = mine && part.verdict[row] == 0 && part.is_shared(row);
      uint32_t rows = lane.ballot(whole_warp, wanted);
      if (lane.thread() != 0) return;
      for (; rows != 0; rows &= rows - 1) work(row + lowest_bit(rows), begun);
    });
    if (lane.thread() != 0) return;
    for (uint32_t i = 0; i < begun; ++i) {
      chains.ops[i] = chains.first[i] != 0 ? DeviceOp::put : DeviceOp::erase;
    }
  }

 private:
  ISOTHERM_HOST_DEVICE void work(uint32_t row, uint32_t& begun) const {
    uint32_t& state = part.shared[part.slots[row]];
    if (state == 1) {
      chains.hashes[begun] = part.hashes[row];
      chains.first[begun] = part.first_found[row] == 1 ? part.first[row] : 0;
      state = 2 + begun++;
    }
    uint64_t& first = chains.first[state - 2];
    const ItemPlace place = find_item(first, part.key(row));
    part.before[row] = place.item;
    part.before_found[row] = static_cast<uint8_t>(place.item != 0);
    const DeviceOp op = part.op_of(row);
    if (op == DeviceOp::put) put(first, place, part.fresh[row]);
    if (op == DeviceOp::erase && place.item != 0) link(first, place.before, place.head.next);
  }

  // In the place of the old item, or before all.
  ISOTHERM_HOST_DEVICE static void put(uint64_t& first, const ItemPlace& place, uint64_t fresh) {
    const bool present = place.item != 0;
    DeviceItem::at(fresh)->next = present ? place.head.next : first;
    link(first, present ? place.before : 0, fresh);
  }
  // Hangs the chain from `item` on behind `before`, or makes it the whole chain.
  ISOTHERM_HOST_DEVICE static void link(uint64_t& first, uint64_t before, uint64_t item) {
    if (before != 0) {
      DeviceItem::at(before)->next = item;
    } else {
      first = item;
    }
  }
};

// After the index was given the chains: refuses the rows of hashes that it has no room for.
struct RefuseExactKernel {
  ItemPart part;
  ExactChains chains;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    warp_rows(lane, part.rows, [&](uint32_t row, bool mine) {
      if (!mine || part.verdict[row] != 0 || !part.is_shared(row)) return;
      const uint32_t state = part.shared[part.slots[row]];
      if (state >= 2 && chains.found[state - 2] == reply_retry)
        part.before_found[row] = reply_retry;
    });
  }
};

}  // namespace isotherm
