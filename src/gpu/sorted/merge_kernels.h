// Merge kernels: two runs of a sorted tier to one, without what the newer one hides.
//
// PlaceKernel finds for each entry its rank in the other run, by a binary search, and so its
// position among the entries of both; an older entry comes before the newer one of its key. Whether
// it stays, and how many words its record has, is written down there. SumTilesKernel sums up what
// stays of each tile of positions, SumAllKernel turns these sums into where each tile begins in the
// new run; then the host knows how large that is. MoveKernel sums up within its tile, writes the
// heads, and copies the records, whose words are dealt to the lanes of a warp.
//
// Limits. Positions are 32 bits, so the runs have less than 2^32 entries together.
#pragma once

#include <cstdint>

#include "base/pair.h"
#include "gpu/kernel/block_sum.h"
#include "gpu/kernel/each_request.h"
#include "gpu/kernel/warp_deal.h"
#include "gpu/sorted/sorted_find.h"

namespace isotherm {

// What goes where nothing older is there that it hides.
struct Droppable {
  bool any = false;          // nothing older is there
  uint32_t expiry_flag = 0;  // as SortedTierOptions has them
  uint32_t expiry_word = 0;
  int64_t now_ms = 0;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool has(const Pair& head,
                                                const SortedRecord& record) const {
    if (!any) return false;
    if ((head.second & SortedPlace::erased) != 0) return true;
    const bool flagged = (head.second & SortedPlace::flagged) != 0;
    if ((record.flags(flagged) & expiry_flag) == 0) return false;
    if (words_of(record.value_bytes) <= expiry_word) return false;
    return static_cast<int64_t>(load_steady_word(record.value() + expiry_word)) <= now_ms;
  }
};

struct MergePart {
  static constexpr uint32_t tile = 256;  // positions

  RunView older;
  RunView newer;
  Droppable droppable;
  // Of each position: which entry, the highest bit: of the newer run, and the words of its record,
  // 0 where it goes.
  uint32_t* entries = nullptr;
  uint32_t* words = nullptr;
  // Of each tile, and behind the last: entries and words before it.
  Pair* begins = nullptr;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t positions() const {
    return older.entries + newer.entries;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t tiles() const {
    return static_cast<uint32_t>((uint64_t{positions()} + tile - 1) / tile);
  }
};

// What stays of some positions of a tile, as one number to be summed up.
struct TileSum {
  static constexpr uint32_t words_at = 12;
  static_assert(MergePart::tile < 1u << words_at);

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint64_t of(uint32_t words) {
    return words == 0 ? 0 : uint64_t{words} << words_at | 1;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static Pair split(uint64_t sum) {
    return {sum & ((1u << words_at) - 1), sum >> words_at};
  }
};

struct PlaceKernel {
  static constexpr uint32_t threads = 256;
  static constexpr uint32_t is_newer = 1u << 31;

  MergePart part;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    each_request(lane, part.positions(), [&](uint64_t i) {
      const auto number = static_cast<uint32_t>(i);
      if (number < part.newer.entries) {
        place(part.newer, number, part.older, true);
      } else {
        place(part.older, number - part.newer.entries, part.newer, false);
      }
    });
  }

 private:
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void place(const RunView& run, uint32_t entry,
                                                  const RunView& other, bool newer) const {
    const Pair head = run.head(entry);
    const SortedRecord record = run.record(head);
    const SortedBound bound = find_bound(other, SoughtKey<StoredKey>{record.key(), head.first});
    const uint32_t at = entry + bound.at + (newer && bound.equal ? 1 : 0);
    const bool goes = (!newer && bound.equal) || part.droppable.has(head, record);
    part.entries[at] = entry | (newer ? is_newer : 0);
    part.words[at] = goes ? 0 : record.words((head.second & SortedPlace::flagged) != 0);
  }
};

struct SumTilesKernel {
  static constexpr uint32_t threads = MergePart::tile;
  using Shared = BlockSums<uint64_t, threads>;

  MergePart part;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    Shared& sums = *lane.template shared<Shared>();
    for (uint32_t tile = lane.block(); tile < part.tiles(); tile += lane.blocks()) {
      const uint64_t at = uint64_t{tile} * threads + lane.thread();
      const uint32_t words = at < part.positions() ? part.words[at] : 0;
      const uint64_t upto = sum_upto(lane, sums, TileSum::of(words));
      if (lane.thread() == threads - 1) part.begins[tile] = TileSum::split(upto);
      lane.sync_block();
    }
  }
};

// One block.
struct SumAllKernel {
  static constexpr uint32_t threads = 512;
  struct Shared {
    BlockSums<uint64_t, threads> entries;
    BlockSums<uint64_t, threads> words;
  };

  MergePart part;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    Shared& shared = *lane.template shared<Shared>();
    const uint32_t tiles = part.tiles();
    const uint32_t each = (tiles + threads - 1) / threads;
    const uint32_t begin = lane.thread() * each < tiles ? lane.thread() * each : tiles;
    const uint32_t end = tiles - begin < each ? tiles : begin + each;
    Pair mine{0, 0};
    for (uint32_t i = begin; i < end; ++i) {
      mine.first += part.begins[i].first;
      mine.second += part.begins[i].second;
    }
    const Pair upto{sum_upto(lane, shared.entries, mine.first),
                    sum_upto(lane, shared.words, mine.second)};
    if (lane.thread() == threads - 1) part.begins[tiles] = upto;
    Pair before{upto.first - mine.first, upto.second - mine.second};
    for (uint32_t i = begin; i < end; ++i) {
      const Pair own = part.begins[i];
      part.begins[i] = before;
      before.first += own.first;
      before.second += own.second;
    }
  }
};

struct MoveKernel {
  static constexpr uint32_t threads = MergePart::tile;
  static constexpr uint32_t at_a_time = 4;
  struct Warp {
    WarpDeal deal;
    const uint64_t* from[32];
  };
  struct Shared {
    BlockSums<uint64_t, threads> sums;
    Warp warp[threads / 32];
  };

  MergePart part;
  Pair* heads = nullptr;
  uint64_t* records = nullptr;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    Shared& shared = *lane.template shared<Shared>();
    Warp& warp = shared.warp[lane.thread() / 32];
    for (uint32_t tile = lane.block(); tile < part.tiles(); tile += lane.blocks()) {
      const uint64_t at = uint64_t{tile} * threads + lane.thread();
      const uint32_t words = at < part.positions() ? part.words[at] : 0;
      const uint64_t mine = TileSum::of(words);
      const Pair before = TileSum::split(sum_upto(lane, shared.sums, mine) - mine);
      const Pair begin = part.begins[tile];
      const uint64_t to = begin.second + before.second;
      if (words != 0) {
        warp.from[lane.thread() & 31] = move_head(at, begin.first + before.first, to);
      }
      copy(lane, warp, words, records + lane.shuffle(whole_warp, to, 0));
      lane.sync_block();
    }
  }

 private:
  // Where its record is.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE const uint64_t* move_head(uint64_t at, uint64_t number,
                                                                 uint64_t to) const {
    const uint32_t entry = part.entries[at];
    const bool newer = (entry & PlaceKernel::is_newer) != 0;
    RunView run = part.older;
    if (newer) run = part.newer;
    const Pair head = run.head(entry & ~PlaceKernel::is_newer);
    constexpr uint64_t bits = (uint64_t{1} << SortedPlace::word_at) - 1;
    heads[number] = {head.first, to << SortedPlace::word_at | (head.second & bits)};
    return run.words + (head.second >> SortedPlace::word_at);
  }

  // The records of a warp, behind one another.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void copy(const Lane& lane, Warp& warp, uint32_t words,
                                                 uint64_t* to) const {
    const uint32_t all = warp.deal.deal(lane, words);
    for (uint64_t begin = lane.thread() & 31; begin < all; begin += 32 * at_a_time) {
      uint64_t data[at_a_time] = {};
      for (uint32_t k = 0; k < at_a_time; ++k) {
        const uint64_t at = begin + 32 * k;
        if (at >= all) continue;
        const uint32_t of = warp.deal.owner_of(static_cast<uint32_t>(at));
        data[k] = load_steady_word(warp.from[of] + (at - warp.deal.begin[of]));
      }
      for (uint32_t k = 0; k < at_a_time; ++k) {
        if (begin + 32 * k < all) to[begin + 32 * k] = data[k];
      }
    }
  }
};

}  // namespace isotherm
