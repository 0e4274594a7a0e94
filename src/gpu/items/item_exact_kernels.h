// Item exact kernels: the rows of a part whose order the index cannot keep, one by one.
//
// These are the rows of exact hashes: of those that several keys share and the part writes, and of
// those with several writers, one with a condition at least. They are left out when the index is
// asked. Then one lane works off all rows of such a hash in arrival order, over its chain of items.
// It begins with the chain that the index had before the part; puts and erases whose conditions
// hold change the chain, and what a row finds is its answer, as the index's answers are for the
// other rows. The first items of the new chains are columns of a batch for the index: `put`, or
// `erase` where a chain has become empty. Where the index has no room for a hash, it had none of
// its items before, so the hash's rows are answered reply_retry and nothing is lost.
//
// Threads. Each warp takes the hashes whose slot in the writer table it is given by its number, and
// looks for their rows among all. Limits. The rows of one hash are worked off by one lane, fewer
// than a million a second. Of 100 million keys two share a hash with a probability of 1 in 3,700,
// unless somebody knows the seed.
#pragma once

#include <cstdint>

#include "gpu/items/item_part.h"

namespace isotherm {

// A row for each hash that was begun.
struct ExactChains {
  uint64_t* hashes = nullptr;
  uint64_t* first = nullptr;  // items, or 0
  TableOp* ops = nullptr;
  uint64_t* replies = nullptr;  // of the index
  uint8_t* found = nullptr;
};

struct ExactKernel {
  static constexpr uint32_t threads = 32;
  static constexpr uint32_t most_blocks = 512;
  static constexpr uint32_t rows_per_block = 256;  // so that small parts need few
  static constexpr uint32_t at_a_time = 8;         // looks at 32 rows each that are under way

  ItemPart part;
  ExactChains chains;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint32_t number = lane.thread();
    for (uint32_t first = 0; first < part.rows; first += 32 * at_a_time) {
      bool wanted[at_a_time];
      for (uint32_t k = 0; k < at_a_time; ++k) {
        const uint32_t row = first + 32 * k + number;
        wanted[k] = row < part.rows && is_mine(lane, row);
      }
      for (uint32_t k = 0; k < at_a_time; ++k) {
        uint32_t rows = lane.ballot(whole_warp, wanted[k]);
        if (number != 0) continue;
        for (; rows != 0; rows &= rows - 1) work<Lane>(first + 32 * k + lowest_bit(rows));
      }
    }
  }

 private:
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_mine(const Lane& lane, uint32_t row) const {
    const uint32_t slot = part.slots[row];
    return slot != WriterTable::none && slot % lane.blocks() == lane.block() &&
           part.verdict[row] == 0 && part.is_exact(row);
  }

  template <class Lane>
  ISOTHERM_HOST_DEVICE void work(uint32_t row) const {
    const uint32_t number = chain<Lane>(row);
    uint64_t& first = chains.first[number];
    const ItemPlace place = find_item(first, part.key(row));
    part.before[row] = place.item;
    part.before_found[row] = static_cast<uint8_t>(place.item != 0);
    const TableOp effect = part.decide(row, place.item != 0, place.head);
    part.index_ops[row] = effect;
    if (effect == TableOp::put) put(first, place, part.fresh[row]);
    if (effect == TableOp::erase && place.item != 0) link(first, place.before, place.head.next());
    chains.ops[number] = first != 0 ? TableOp::put : TableOp::erase;
  }

  // The chain of the row's hash, by its number.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t chain(uint32_t row) const {
    uint32_t& state = part.states[part.slots[row]];
    if ((state & writer_state::begun) != 0) return state & writer_state::chain;
    const auto number = static_cast<uint32_t>(Lane::atomic_add(&part.counts->begun, uint64_t{1}));
    chains.hashes[number] = part.hashes[row];
    chains.first[number] = part.first_found[row] == 1 ? part.first[row] : 0;
    state |= writer_state::begun | number;
    return number;
  }

  // In the place of the old item, or before all.
  ISOTHERM_HOST_DEVICE static void put(uint64_t& first, const ItemPlace& place, uint64_t fresh) {
    const bool present = place.item != 0;
    ItemHead::set_next(fresh, present ? place.head.next() : first);
    link(first, present ? place.before : 0, fresh);
  }
  // Hangs the chain from `item` on behind `before`, or makes it the whole chain.
  ISOTHERM_HOST_DEVICE static void link(uint64_t& first, uint64_t before, uint64_t item) {
    if (before != 0) {
      ItemHead::set_next(before, item);
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
      if (!mine || part.verdict[row] != 0 || !part.is_exact(row)) return;
      const uint32_t number = part.state(row) & writer_state::chain;
      if (chains.found[number] == reply_retry) part.before_found[row] = reply_retry;
    });
  }
};

}  // namespace isotherm
