// ClockHand: chooses what to evict, in CLOCK order (Mega-KV, section 6.2), with two hands.
//
// A hand goes round all chunks in the order of their addresses. An item that was read since the
// hand last passed loses its bit and stays; another one is visited, to be evicted. Bits are read 64
// at a time from beside the chunk, so items themselves are touched only to be evicted. Large items
// have no addresses in that order; a hand visits each where it stood when the item joined its kind,
// or when it last visited the item (items/large_items.h). A sweep that has no use for the largest
// visits them where they are, so that they stay the first to be evicted.
//
// Two hands. A new item is on probation: the first hand visits only such items, and one that was
// read is proven from then on. The second hand visits the proven ones. So a crowd of items that
// nobody reads a second time passes through a part of the memory, and leaves what is read again and
// again alone. How large that part should be is learnt (items/probation.h), and a sweep moves the
// hand whose kind has too much. Where that one finds no item, or of those with an expiry none to
// visit, it moves the other one, too.
//
// New items. A new item mostly takes a place that a hand has just passed, and starts without its
// bit. When all others were read, the hand comes to the newest at once; those of 8 KiB and more are
// passed over then (items/newest_items.h).
//
// Threads. One at a time, by try_lock. Who found it busy may wait until it is free, outside of
// epochs: the thread that moves a hand may have lost its core.
#pragma once

#include <cstdint>
#include <limits>
#include <mutex>

#include "items/chunk_walk.h"
#include "items/large_items.h"
#include "items/newest_items.h"
#include "items/visitor.h"

namespace isotherm {

class ItemStore;

class ClockHand {
 public:
  ClockHand(ItemStore& store, ChunkPool& pool, LargeItems& large, NewestItems& newest)
      : store_(store), pool_(pool), large_(large), newest_(newest) {}

  static constexpr uint64_t any_size = std::numeric_limits<uint64_t>::max();
  uint32_t sweep(uint32_t limit, Visitor visit, bool volatile_only, uint64_t most_bytes);
  void wait_until_free() { const std::lock_guard guard(mutex_); }

 private:
  struct Hand {
    bool proven;  // the kind of items that it visits
    ChunkWalk walk{};
    uint64_t laps = 0;
    uint64_t live = 0;  // items of both kinds that it passed in this lap
  };
  // One call's share of a sweep.
  struct Share {
    Hand& hand;
    Visitor visit;
    bool volatile_only;
    uint64_t most_bytes;
    uint32_t limit;
    uint32_t steps;
    uint32_t looked = 0;
    uint32_t visited = 0;
    bool enough = false;
    bool over() const { return enough || looked >= limit || steps == 0; }
  };
  void go(Share& share, bool stops);
  void sweep_chunk(Share& share);
  void sweep_word(Share& share, Chunk& chunk, LiveWord word);
  bool visit_large(Share& share);
  void pass_over(Share& share);
  void begin_lap(Hand& hand);
  void move_hand(const Hand& hand);
  void visit_wanted(Share& share, Location location);

  ItemStore& store_;
  ChunkPool& pool_;
  LargeItems& large_;
  NewestItems& newest_;
  std::mutex mutex_;  // all below
  Hand hands_[2]{{.proven = false}, {.proven = true}};
};

}  // namespace isotherm
