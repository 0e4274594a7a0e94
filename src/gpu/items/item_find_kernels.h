// Item find kernels: the hashes of a part's keys, and the answers from what the index found.
//
// Each lane has a row. Keys are read by their lane alone: short ones, in whole lines of the column;
// the item of a row is one or two sectors of 32 bytes for its head and a short key. Columns of the
// reply may lie where those of the requests do: nobody reads requests any more.
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
      part.verdict[row] = taken ? 0 : gpu::reply_refused;
    });
  }

 private:
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool takes(uint32_t row) const {
    const TableOp op = part.op_of(row);
    return is_item_op(op) && (!names_version(op) || part.expected != nullptr) &&
           part.keys.takes(row, gpu::max_item_key_bytes) &&
           (!puts_item(op) || part.values.takes(row, gpu::max_item_value_bytes));
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
        part.before[row] = answer.replies ? answer.item.location : 0;
        part.lengths[row] = answer.length();
        if constexpr (writes) part.old[row] = answer.old;
        reply_columns(row, answer);
      }
      sum_up(lane, row, answer.length());
      if constexpr (writes) count_items(lane, answer);
    });
  }

 private:
  struct Answer {
    ItemHead item{};       // live, before the request; none: location 0
    bool replies = false;  // its value
    uint64_t old = 0;
    uint64_t version = 0;  // that the row gave
    int32_t more_items = 0;
    bool no_place = false;
    uint8_t found = 0;

    ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t length() const {
      return replies ? item.value_bytes : 0;
    }
  };

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Answer answer_of(uint32_t row) const {
    Answer answer;
    const TableOp op = writes ? part.op_of(row) : TableOp::get;
    const uint8_t was = part.before_found[row];
    answer.found = part.verdict[row];
    if (answer.found == 0 && was == reply_retry) {
      answer.found = reply_retry;
      if (writes && puts_item(op)) {
        answer.old = part.fresh[row];
        answer.no_place = answer.old != 0;
      }
    }
    if (answer.found != 0) return answer;
    const uint64_t before = was == 1 ? part.before[row] : 0;
    if (op == TableOp::get) {
      get(row, before, answer);
    } else if constexpr (writes) {
      write(row, op, before, answer);
    }
    return answer;
  }

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void get(uint32_t row, uint64_t first,
                                                Answer& answer) const {
    const ItemPlace place = find_item(first, part.key(row));
    if (place.item == 0 || !part.is_live(place.head)) return;
    if (part.evicts) place.head.mark_read();
    answer.item = place.head;
    answer.replies = true;
    answer.found = 1;
  }

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void write(uint32_t row, TableOp op, uint64_t before,
                                                  Answer& answer) const {
    const TableOp effect = part.index_ops[row];
    if (before != 0) {
      const ItemHead item = ItemHead::of(before);
      if (part.is_live(item)) answer.item = item;
    }
    const bool present = answer.item.location != 0;
    answer.replies = part.previous && present;
    answer.found = present ? 1 : 0;
    if (effect == TableOp::get) {
      if (present && names_version(op)) answer.found = gpu::reply_other_version;
      answer.old = part.fresh[row];
      return;
    }
    answer.old = before;
    // An erase of what is not there changes nothing.
    if (effect == TableOp::put || present) answer.version = part.version(row);
    if (effect == TableOp::put && before == 0) answer.more_items = 1;
    if (effect == TableOp::erase && before != 0) answer.more_items = -1;
  }

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void reply_columns(uint32_t row,
                                                          const Answer& answer) const {
    const bool present = answer.item.location != 0;
    if (part.versions != nullptr) part.versions[row] = present ? answer.item.version() : 0;
    if (part.expiry_out != nullptr) part.expiry_out[row] = present ? answer.item.expiry() : 0;
    if (part.flags_out != nullptr) part.flags_out[row] = present ? answer.item.flags() : 0;
    if (part.new_versions != nullptr) part.new_versions[row] = answer.version;
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
