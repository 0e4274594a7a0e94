// Item find kernels: the hashes of a part's keys, and the answers from what the index found.
//
// Each lane has a row. Keys are read by their lane alone: short ones, in whole lines of the column;
// the item of a row is one or two sectors of 32 bytes for its head and a short key.
#pragma once

#include <cstdint>

#include "gpu/items/item_part.h"

namespace isotherm {

// Hashes, and the rows that cannot be taken.
struct HashItemsKernel {
  ItemPart part;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    warp_rows(lane, part.rows, [&](uint32_t row, bool mine) {
      const bool taken = mine && takes(row);
      const uint32_t refused = count_bits(lane.ballot(whole_warp, mine && !taken));
      if (refused != 0 && (lane.thread() & 31) == 0) {
        Lane::atomic_add(&part.counts->refused, uint64_t{refused});
      }
      if (!mine) return;
      uint64_t hash = 0;
      if (taken) {
        const KeyView key = part.key(row);
        hash = part.hash(key.data, key.bytes, key.readable);
      }
      part.hashes[row] = hash;
      part.verdict[row] = taken ? 0 : reply_refused;
    });
  }

 private:
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool takes(uint32_t row) const {
    const DeviceOp op = part.op_of(row);
    const bool put = op == DeviceOp::put;
    return (put || op == DeviceOp::get || op == DeviceOp::erase) &&
           part.keys.takes(row, max_item_key_bytes) &&
           (!put || part.values.takes(row, max_item_value_bytes));
  }
};

// Replies from the index's answers, the lengths of values, and what is to be freed.
template <bool writes>
struct AnswerItemsKernel {
  ItemPart part;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    warp_rows(lane, part.rows, [&](uint32_t row, bool mine) {
      Answer answer;
      if (mine) answer = answer_of(row);
      if (mine) {
        if (part.found != nullptr) part.found[row] = answer.found;
        part.before[row] = answer.item;
        part.lengths[row] = answer.length;
        if constexpr (writes) part.old[row] = answer.old;
      }
      sum_up(lane, row, answer.length);
      if constexpr (writes) count_items(lane, answer);
    });
  }

 private:
  struct Answer {
    uint64_t item = 0;  // whose value is the reply
    uint64_t old = 0;
    uint32_t length = 0;
    int32_t more_items = 0;
    bool no_place = false;
    uint8_t found = 0;
  };

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Answer answer_of(uint32_t row) const {
    Answer answer;
    const DeviceOp op = writes ? part.op_of(row) : DeviceOp::get;
    const uint8_t was = part.before_found[row];
    answer.found = part.verdict[row];
    if (answer.found == 0 && was == reply_retry) {
      answer.found = reply_retry;
      if (writes && op == DeviceOp::put) {
        answer.old = part.fresh[row];
        answer.no_place = true;
      }
    }
    if (answer.found != 0) return answer;
    if (op == DeviceOp::get) {
      get(row, was == 1 ? part.before[row] : 0, answer);
    } else {
      const uint64_t before = was == 1 ? part.before[row] : 0;
      answer.old = before;
      answer.found = static_cast<uint8_t>(before != 0 && live(before));
      if (op == DeviceOp::put && before == 0) answer.more_items = 1;
      if (op == DeviceOp::erase && before != 0) answer.more_items = -1;
    }
    return answer;
  }

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void get(uint32_t row, uint64_t first,
                                                Answer& answer) const {
    const ItemPlace place = find_item(first, part.key(row));
    if (place.item == 0 || !live(place.item)) return;
    if (part.evicts) DeviceItem::at(place.item)->mark_read();
    answer.item = place.item;
    answer.length = place.head.value_bytes;
    answer.found = 1;
  }

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool live(uint64_t item) const {
    return part.now == 0 || !DeviceItem::at(item)->expired(part.now);
  }

  // Of the warp's rows.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void sum_up(const Lane& lane, uint32_t row,
                                                   uint32_t length) const {
    const uint32_t number = lane.thread() & 31;
    uint64_t sum = length;
    for (uint32_t step = 16; step != 0; step /= 2) {
      sum += lane.shuffle(whole_warp, sum, number ^ step);
    }
    if (number == 0) part.sums[row / 32] = sum;
  }

  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void count_items(const Lane& lane,
                                                        const Answer& answer) const {
    const uint32_t added = count_bits(lane.ballot(whole_warp, answer.more_items > 0));
    const uint32_t erased = count_bits(lane.ballot(whole_warp, answer.more_items < 0));
    const uint32_t no_place = count_bits(lane.ballot(whole_warp, answer.no_place));
    if ((lane.thread() & 31) != 0) return;
    if (added != erased) {
      Lane::atomic_add(&part.lists->items, int64_t{added} - int64_t{erased});
    }
    if (no_place != 0) Lane::atomic_add(&part.lists->no_place, uint64_t{no_place});
  }
};

}  // namespace isotherm
