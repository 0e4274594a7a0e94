// ClockHand: chooses what to evict, in CLOCK order (Mega-KV, section 6.2).
//
// The hand goes round all chunks in the order of their addresses. An item that was read since the
// hand last passed loses its bit and stays; another one is visited, to be evicted. Bits are read 64
// at a time from beside the chunk, so items themselves are touched only to be evicted. Large items
// have no addresses in that order; the hand visits each where it stood when the item became live,
// or when it last visited the item (items/large_items.h). A sweep that has no use for the largest
// visits them where they are, so that they stay the first to be evicted.
//
// New items. A new item mostly takes a place that the hand has just passed, so it may be read
// during a whole round. It starts without its bit, so that a crowd of items that nobody reads is
// evicted sooner. When all others were read, the hand comes to the newest at once; those of 8 KiB
// and more are passed over then (items/newest_items.h).
//
// Threads. One at a time, by try_lock. Who found it busy may wait until it is free, outside of
// epochs: the thread that moves the hand may have lost its core.
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
  ClockHand(const ItemStore& store, ChunkPool& pool, LargeItems& large, NewestItems& newest)
      : store_(store), pool_(pool), large_(large), newest_(newest) {}

  static constexpr uint64_t any_size = std::numeric_limits<uint64_t>::max();
  uint32_t sweep(uint32_t limit, Visitor visit, bool volatile_only, uint64_t most_bytes);
  void wait_until_free() { const std::lock_guard guard(mutex_); }

 private:
  // One call's share of a sweep.
  struct Share {
    Visitor visit;
    bool volatile_only;
    uint64_t most_bytes;
    uint32_t limit;
    uint32_t looked = 0;
    uint32_t steps;
    bool enough = false;
    bool over() const { return enough || looked >= limit || steps == 0; }
  };
  void sweep_chunk(Share& share);
  void sweep_word(Share& share, Chunk& chunk, const LiveWord& word);
  bool visit_large(Share& share);
  void pass_over(Share& share);
  void move_hand();
  bool wanted(const Share& share, Location location) const;

  const ItemStore& store_;
  ChunkPool& pool_;
  LargeItems& large_;
  NewestItems& newest_;
  std::mutex mutex_;  // all below
  ChunkWalk walk_;
  uint64_t rounds_ = 0;
};

}  // namespace isotherm
