// SplitKernel: segments of a table split into two of twice the lines, between batches.
//
// A tile has one line of the old segment and so the two neighbouring lines of one child that it
// feeds; nobody else writes those. It reads the chain line by line and appends entries to the two
// chains, whose last lines its lanes hold, a slot each, until they are full and are written whole.
// An overflow line, once read, is free for the children: two chains of a and b entries never need
// more overflow lines than one of a + b, nor do they need one before the old chain has given it. So
// a split takes nothing from the stock and cannot fail; what is left over goes there.
#pragma once

#include <cstdint>

#include "gpu/kernel/table_view.h"
#include "gpu/table/segment_job.h"

namespace isotherm {

struct SplitJob {
  Bucket* from = nullptr;
  Bucket* child[2] = {};    // contents undefined before
  int depth = 0;            // of `from`
  uint64_t first_hash = 0;  // its prefix, in the top bits
};

struct SplitKernel {
  TableView table;
  const SplitJob* jobs = nullptr;
  uint32_t job_count = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const TileLanes<Lane> tile(lane);
    const int line_bits = table.index.line_bits;
    each_home_line(lane, jobs, job_count, line_bits, [&](const SplitJob& job, uint64_t number) {
      Splitter<Lane> splitter(tile, table.stock);
      splitter.run(job, number, line_bits);
    });
  }

 private:
  template <class Lane>
  class Splitter {
   public:
    ISOTHERM_HOST_DEVICE Splitter(const TileLanes<Lane>& tile, const StockView& stock)
        : tile_(tile), retired_(tile, stock) {}

    ISOTHERM_HOST_DEVICE void run(const SplitJob& job, uint64_t number, int line_bits) {
      Bucket* home = job.from + number;
      // The line's two successors lie side by side in the child that its first bit picks.
      const uint64_t pair = number << 1 & ((uint64_t{1} << line_bits) - 1);
      Bucket* to = job.child[number >> (line_bits - 1)] + pair;
      const int bit = job.depth + line_bits;
      const uint64_t any_hash = job.first_hash | number << (64 - bit);
      Chain chain[2] = {{to}, {to + 1}};
      for (Bucket* line = home; line != nullptr;) {
        const Pair view = tile_.load(line);
        const Slot last = tile_.slot(view, Bucket::last);
        const bool linked = mark::is_mark(last, any_hash);
        tile_.lane().sync_warp(tile_.mask());
        if (line != home) keep(line);
        const bool entry = view.first != 0 && !(linked && tile_.number() == uint32_t{Bucket::last});
        const bool upper = (view.first >> (63 - bit) & 1) != 0;
        append(chain[0], view, tile_.ballot(entry && !upper));
        append(chain[1], view, tile_.ballot(entry && upper));
        line = linked ? mark::link_target(last) : nullptr;
      }
      store(chain[0]);
      store(chain[1]);
      drop_spares();
    }

   private:
    struct Chain {
      Bucket* line;
      uint32_t used = 0;
      Pair held = {0, 0};  // this lane's slot of `line`
    };

    // Those entries of a line that `lanes` of the tile have, in their order.
    ISOTHERM_HOST_DEVICE void append(Chain& chain, Pair view, uint32_t lanes) {
      while (lanes != 0) {
        if (chain.used == Bucket::slots) extend(chain);
        const uint32_t place = tile_.number() - chain.used;  // among those that come; none below
        uint32_t rest = lanes;
        for (uint32_t i = 0; i < place && rest != 0; ++i) rest &= rest - 1;
        const auto source = rest != 0 ? static_cast<uint32_t>(probe_internal::first_bit(rest)) : 0;
        const Pair entry = {tile_.from(view.first, source), tile_.from(view.second, source)};
        if (tile_.number() >= chain.used && rest != 0) chain.held = entry;
        for (; lanes != 0 && chain.used < Bucket::slots; lanes &= lanes - 1) ++chain.used;
      }
    }
    // The entry in the last slot gives way to a link.
    ISOTHERM_HOST_DEVICE void extend(Chain& chain) {
      Bucket* fresh = pop();
      const Pair moved = tile_.slot(chain.held, Bucket::last);
      if (tile_.number() == uint32_t{Bucket::last}) {
        chain.held = mark::make_link(fresh, moved.first);
      }
      store(chain);
      chain = {fresh, 1, tile_.leads() ? moved : Pair{0, 0}};
    }
    ISOTHERM_HOST_DEVICE void store(const Chain& chain) const {
      store_pair(&chain.line->slot[tile_.number()], chain.held);
    }
    ISOTHERM_HOST_DEVICE void put(Bucket* line, int i, Slot slot) const {
      if (tile_.leads()) store_pair(&line->slot[i], slot);
    }

    // Lines that were read are kept in a list that runs through their second slot.
    ISOTHERM_HOST_DEVICE void keep(Bucket* line) {
      store_pair(&line->slot[tile_.number()], {0, 0});
      tile_.lane().sync_warp(tile_.mask());
      put(line, 1, {0, reinterpret_cast<uint64_t>(spares_)});
      spares_ = line;
    }
    ISOTHERM_HOST_DEVICE Bucket* pop() {
      Bucket* line = spares_;
      uint64_t next = 0;
      if (tile_.leads()) {
        next = load_pair(&line->slot[1]).second;
        store_pair(&line->slot[1], {0, 0});
      }
      tile_.lane().sync_warp(tile_.mask());  // before another lane stores there
      spares_ = reinterpret_cast<Bucket*>(tile_.share(next));
      return line;
    }
    ISOTHERM_HOST_DEVICE void drop_spares() {
      while (spares_ != nullptr) retired_.retire(pop());
    }

    const TileLanes<Lane>& tile_;
    TileStock<Lane> retired_;
    Bucket* spares_ = nullptr;
  };
};

}  // namespace isotherm
