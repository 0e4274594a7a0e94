// RangeKernel: ranges of keys, a warp each, whose pairs the host reads in place (see
// gpu/sorted/direct_ranges.h).
//
// A warp goes over the pairs of its range twice (gpu/sorted/range_merge.h). First it counts how
// many are shown and their bytes, up to what ends the range; then it takes room for them in the
// replies, by one atomic addition; then it writes them. The first pairs are kept in shared memory,
// so of most ranges the second way is short; larger ones are merged again. So a range needs no
// memory that grows with it.
//
// Replies are words of 8 bytes, dealt to the warp's lanes in turn, so they are written in whole
// lines over the bus.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/sorted/direct_ranges.h"
#include "gpu/sorted/range_merge.h"

namespace isotherm {

// What the device is asked.
struct AskedRanges {
  const uint32_t* key_ends = nullptr;  // 2 * ranges + 1; the first is 0
  const char* keys = nullptr;
  const uint32_t* limits = nullptr;
  uint64_t* taken = nullptr;  // bytes of the replies that ranges have taken; 0 before
  RangeHead* heads = nullptr;
  char* replies = nullptr;
  uint64_t reply_room = 0;
  uint32_t most_bytes = 0;
  uint32_t value_skip = 0;
  uint32_t ranges = 0;

  // The key number `i`: first keys and ends in turn.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE AskedKey key(uint32_t i) const {
    return {keys + key_ends[i], key_ends[i + 1] - key_ends[i], {keys, keys + key_ends[2 * ranges]}};
  }
};

struct RangeKernel {
  static constexpr uint32_t threads = 128;
  static constexpr uint32_t blocks_per_multiprocessor = 8;
  static constexpr uint32_t warps = threads / 32;
  static constexpr uint32_t most_kept = 128;
  static constexpr uint32_t at_a_time = 4;

  struct Warp {
    RangeMergeWarp merge;
    uint64_t kept[most_kept];  // the first pairs, as RangeMergeWarp::found
    const uint64_t* record[32];
    PairHead head[32];
  };
  struct Shared {
    SortedRuns runs;
    Warp warp[warps];
  };

  SortedRuns runs;
  AskedRanges asked;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    Shared& shared = *lane.template shared<Shared>();
    // Lanes read different runs, which they do faster there.
    for (uint32_t i = lane.thread(); i < runs.count; i += threads) shared.runs.run[i] = runs.run[i];
    if (lane.thread() == 0) {
      shared.runs.count = runs.count;
      shared.runs.front = runs.front;
    }
    lane.sync_block();
    Warp& warp = shared.warp[lane.thread() / 32];
    for (uint32_t row = lane.block() * warps + lane.thread() / 32; row < asked.ranges;
         row += lane.blocks() * warps) {
      answer(lane, shared.runs, warp, row);
    }
  }

 private:
  struct Counted {
    uint64_t bytes = 0;
    uint32_t pairs = 0;
    RangeHead::End end = RangeHead::End::all;
  };

  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void answer(const Lane& lane, const SortedRuns& all,
                                                   Warp& warp, uint32_t row) const {
    RangeMerge<Lane> merge(lane, warp.merge, all, asked.key(2 * row), asked.key(2 * row + 1));
    const Counted counted = count(lane, warp, merge, asked.limits[row]);
    RangeHead head{0, counted.pairs, counted.end};
    if (counted.bytes != 0) head.at = take_room(lane, counted.bytes);
    if (head.at + counted.bytes > asked.reply_room) {
      head = {};
    } else {
      write(lane, warp, merge, head);
    }
    if ((lane.thread() & 31) == 0) store_head(row, head);
  }
  // At once: each store of a lane alone is a packet on the bus.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void store_head(uint32_t row, const RangeHead& head) const {
    static_assert(sizeof(RangeHead) == sizeof(Pair) && offsetof(RangeHead, end) == 12);
    reinterpret_cast<Pair*>(asked.heads)[row] = {
        head.at, uint64_t{static_cast<uint32_t>(head.end)} << 32 | head.pairs};
  }

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE PairHead shown(const SortedRecord& record) const {
    const uint32_t skip = asked.value_skip;
    return {record.key_bytes, record.value_bytes > skip ? record.value_bytes - skip : 0};
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint64_t bytes_of(const PairHead& head) {
    return word_bytes * (1 + words_of(uint64_t{head.key_bytes} + head.value_bytes));
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static SortedRecord record_of(uint64_t found) {
    return SortedRecord::of(reinterpret_cast<const uint64_t*>(found & ~uint64_t{1}));
  }

  // How far the range goes; keeps its first pairs.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Counted count(const Lane& lane, Warp& warp,
                                                     RangeMerge<Lane>& merge,
                                                     uint32_t limit) const {
    const uint32_t number = lane.thread() & 31;
    Counted counted;
    while (merge.more()) {
      if (counted.pairs == limit) {
        counted.end = RangeHead::End::limit;
        break;
      }
      const uint32_t found = merge.step();
      const uint64_t pair = number < found ? warp.merge.found[number] : 0;
      uint64_t bytes = 0;
      if (number < found) bytes = bytes_of(shown(record_of(pair)));
      const uint64_t upto = counted.bytes + warp_sum_upto(lane, bytes);
      auto end = RangeHead::End::all;
      if (number < found) {
        if (limit - counted.pairs <= number) {
          end = RangeHead::End::limit;
        } else if ((pair & 1) != 0) {
          end = RangeHead::End::flags;
        } else if (upto > asked.most_bytes) {
          end = RangeHead::End::bytes;
        }
      }
      const uint32_t ends = lane.ballot(whole_warp, end != RangeHead::End::all);
      const uint32_t taken = ends != 0 ? lowest_bit(ends) : found;
      if (number < taken && counted.pairs + number < most_kept) {
        warp.kept[counted.pairs + number] = pair;
      }
      if (taken != 0) counted.bytes = lane.shuffle(whole_warp, upto, taken - 1);
      counted.pairs += taken;
      if (ends != 0) {
        counted.end = static_cast<RangeHead::End>(
            lane.shuffle(whole_warp, static_cast<uint32_t>(end), taken));
        break;
      }
    }
    lane.sync_warp(whole_warp);
    return counted;
  }

  // Where the range's pairs begin.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t take_room(const Lane& lane, uint64_t bytes) const {
    uint64_t at = 0;
    if ((lane.thread() & 31) == 0) {
      const uint64_t whole = (bytes + RangeShape::unit - 1) / RangeShape::unit * RangeShape::unit;
      at = Lane::atomic_add(asked.taken, whole);
    }
    return lane.shuffle(whole_warp, at, 0);
  }

  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void write(const Lane& lane, Warp& warp,
                                                  RangeMerge<Lane>& merge,
                                                  const RangeHead& head) const {
    const uint32_t number = lane.thread() & 31;
    auto* to = reinterpret_cast<uint64_t*>(asked.replies + head.at);
    const bool kept = head.pairs <= most_kept;
    if (!kept) merge.restart();
    for (uint32_t done = 0; done < head.pairs;) {
      const uint32_t rest = head.pairs - done;
      const uint32_t found = kept ? 32 : merge.step();
      const uint32_t pairs = rest < found ? rest : found;
      uint64_t pair = 0;
      if (number < pairs) pair = kept ? warp.kept[done + number] : warp.merge.found[number];
      to += write_pairs(lane, warp, pair, to);
      done += pairs;
    }
  }

  // A pair of each lane that has one; the words that they take.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t write_pairs(const Lane& lane, Warp& warp,
                                                            uint64_t pair, uint64_t* to) const {
    const uint32_t number = lane.thread() & 31;
    uint32_t words = 0;
    if (pair != 0) {
      const SortedRecord record = record_of(pair);
      const PairHead head = shown(record);
      warp.record[number] = record.at;
      warp.head[number] = head;
      words = static_cast<uint32_t>(bytes_of(head) / word_bytes);
    }
    WarpDeal& deal = warp.merge.deal;
    const uint32_t all = deal.deal(lane, words);
    // From the beginning of a line on, so that each store of the warp is of whole lines.
    const auto skip = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(to) / word_bytes % 32);
    for (uint32_t begin = number; begin < all + skip; begin += 32 * at_a_time) {
      uint64_t data[at_a_time] = {};
      for (uint32_t k = 0; k < at_a_time; ++k) {
        const uint32_t at = begin + 32 * k - skip;
        if (at >= all) continue;
        const uint32_t of = deal.owner_of(at);
        data[k] = reply_word(warp.record[of], warp.head[of], at - deal.begin[of]);
      }
      for (uint32_t k = 0; k < at_a_time; ++k) {
        const uint32_t at = begin + 32 * k - skip;
        if (at < all) to[at] = data[k];
      }
    }
    lane.sync_warp(whole_warp);
    return all;
  }

  // A word of a pair of the reply: its head, or 8 bytes of the key with what is shown of the value
  // behind it.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t reply_word(const uint64_t* record,
                                                           const PairHead& head,
                                                           uint32_t unit) const {
    if (unit == 0) return uint64_t{head.value_bytes} << 32 | head.key_bytes;
    const uint32_t at = word_bytes * (unit - 1);
    const uint64_t* const key = record + 1;
    uint64_t word = 0;
    uint32_t of_key = 0;
    if (at < head.key_bytes) {
      const uint32_t left = head.key_bytes - at;
      of_key = left < word_bytes ? left : word_bytes;
      word = load_steady_word(key + (unit - 1));
    }
    const uint32_t from = at + of_key - head.key_bytes;  // of what is shown of the value
    if (of_key == word_bytes || from >= head.value_bytes) return word;
    const uint32_t left = head.value_bytes - from;
    const uint32_t room = word_bytes - of_key;
    const uint64_t bytes = load_bytes(key + words_of(head.key_bytes),
                                      uint64_t{asked.value_skip} + from, left < room ? left : room);
    return word | bytes << (8 * of_key);
  }
};

}  // namespace isotherm
