// UnlinkKernel: chains of some segments close up, and overflow lines that are empty then go back to
// the stock, between batches.
//
// Erased entries leave holes, and new ones fill those of their own chain only. Where the stock
// cannot grow, lines that are nearly empty would so keep other chains from growing.
//
//   before   home   e1 -  e2 -  e3 e4 e5 LINK ──▶  e6 -  -  -  e7 -  -  LINK ──▶  e8 e9 -  …
//   after    home   e1 e6 e2 e7 e3 e4 e5 LINK ──▶  e8 e9 -  …
//
// A tile has one chain and keeps two neighbouring lines of it in registers. Entries of the second
// go to the free slots of the first. If none is left there, the second line leaves the chain: the
// first takes over its last slot, be that the link to a third line or, at the end, a free slot.
// Else the first line is full, and the second becomes the first. At the end of the chain one entry
// alone in its line goes to the slot of the link to it. So every line but the last is full, and a
// chain has no line more than its entries need.
//
// Nobody else may be at the table: a reader that is past a line would miss what moves there. The
// head needs no such care: it has one entry, and no chain.
#pragma once

#include <cstdint>

#include "gpu/kernel/bits.h"
#include "gpu/kernel/table_view.h"
#include "gpu/table/segment_job.h"

namespace isotherm {

struct UnlinkKernel {
  TableView table;
  const SegmentJob* jobs = nullptr;
  uint32_t job_count = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const TileLanes<Lane> tile(lane);
    const TileStock<Lane> stock(tile, table.stock);
    const int line_bits = table.index.line_bits;
    each_home_line(lane, jobs, job_count, line_bits, [&](const SegmentJob& job, uint64_t number) {
      close_up(Chain<Lane>{tile, stock, job.hash_of_line(number, line_bits)}, job.lines + number);
    });
  }

 private:
  template <class Lane>
  struct Chain {
    const TileLanes<Lane>& tile;
    const TileStock<Lane>& stock;
    uint64_t any_hash;

    ISOTHERM_HOST_DEVICE bool links(Pair view) const {
      return mark::is_mark({tile.first(view, Bucket::last), 0}, any_hash);
    }
  };

  template <class Lane>
  ISOTHERM_HOST_DEVICE static void close_up(const Chain<Lane>& chain, Bucket* line) {
    Bucket* before = nullptr;
    Pair view = chain.tile.load(line);
    while (chain.links(view)) {
      Bucket* next = mark::link_target(chain.tile.slot(view, Bucket::last));
      Pair rest = chain.tile.load(next);
      if (draw_up(chain, line, view, next, rest)) continue;
      before = line;
      line = next;
      view = rest;
    }
    if (before != nullptr) fold_end(chain, before, line, view);
  }

  // Moves entries of `next`, as `rest` shows it, to `line`, as `view` does; both are kept true.
  // True if `next` left the chain.
  template <class Lane>
  ISOTHERM_HOST_DEVICE static bool draw_up(const Chain<Lane>& chain, Bucket* line, Pair& view,
                                           Bucket* next, Pair& rest) {
    const TileLanes<Lane>& tile = chain.tile;
    const uint32_t number = tile.number();
    const bool is_last = number == uint32_t{Bucket::last};
    const bool linked = chain.links(rest);
    const bool entry = rest.first != 0 && !(linked && is_last);
    const uint32_t free = tile.ballot(view.first == 0);
    const uint32_t used = tile.ballot(entry);
    // The free slot of each rank takes the entry of that rank.
    const uint32_t rank = count_below(free, number);
    const bool takes = view.first == 0 && rank < count_bits(used);
    const uint32_t from = takes ? nth_bit(used, rank) : number;
    const Pair taken{tile.from(rest.first, from), tile.from(rest.second, from)};
    if (takes) store_pair(&line->slot[number], view = taken);
    if (count_bits(used) <= count_bits(free)) {
      if (is_last) store_pair(&line->slot[number], view = linked ? rest : Pair{0, 0});
      chain.stock.retire(next);
      return true;
    }
    const bool moved = entry && count_below(used, number) < count_bits(free);
    if (moved) store_pair(&next->slot[number], rest = {0, 0});
    return false;
  }

  // The last two lines of a chain, the first of which is full.
  template <class Lane>
  ISOTHERM_HOST_DEVICE static void fold_end(const Chain<Lane>& chain, Bucket* line, Bucket* end,
                                            Pair view) {
    const uint32_t used = chain.tile.ballot(view.first != 0);
    if (count_bits(used) != 1) return;
    chain.tile.lane().sync_warp(chain.tile.mask());  // the link there may be another lane's store
    if (view.first != 0) store_pair(&line->slot[Bucket::last], view);
    chain.stock.retire(end);
  }
};

}  // namespace isotherm
