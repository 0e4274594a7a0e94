// ExpirySweep: finds expired items without looking at the others.
//
// Every chunk has a lower bound of the next expiry among its items, large items share one, and the
// store has one over all of these. A pass begins when the store's bound is due. It goes over all
// bounds, looks only at the items of chunks whose bound is due, visits the expired ones, and leaves
// new bounds behind.
//
// Why no item is forgotten: a pass resets a bound before it reads the items, and takes the minimum
// of bound and items afterwards. A thread that gives an item an expiry writes first the item, then
// the bound of its chunk, then the store's. Either the pass reads the item's new expiry, or the
// bound is lowered after the reset. A pass that stops within a chunk lowers its bound to what it
// has seen and does not reset it again when it goes on.
//
// Threads. One at a time, by try_lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "items/chunk_walk.h"
#include "items/large_items.h"
#include "items/visitor.h"

namespace isotherm {

class ItemStore;

class ExpirySweep {
 public:
  // `next_expiry` is the store's bound.
  ExpirySweep(const ItemStore& store, ChunkPool& pool, LargeItems& large,
              std::atomic<int64_t>& next_expiry)
      : store_(store), pool_(pool), large_(large), next_expiry_(next_expiry) {}

  uint32_t sweep(int64_t now_ms, uint32_t limit, Visitor visit);

 private:
  enum class Phase : uint8_t { idle, chunks, large };
  // One call's share of a sweep.
  struct Share {
    Visitor visit;
    int64_t now_ms;
    uint32_t limit;
    uint32_t steps;
    uint32_t looked = 0;
    bool enough = false;
    bool over() const { return enough || looked >= limit || steps == 0; }
  };
  bool begin(int64_t now_ms);
  void finish();
  void sweep_chunk(Share& share);
  void sweep_large(Share& share);
  void enter(std::atomic<int64_t>& bound);
  void leave(std::atomic<int64_t>& bound);
  void look(Share& share, Location location);

  const ItemStore& store_;
  ChunkPool& pool_;
  LargeItems& large_;
  std::atomic<int64_t>& next_expiry_;

  std::mutex mutex_;  // all below
  Phase phase_ = Phase::idle;
  ChunkWalk walk_;
  uint32_t large_number_ = 0;
  bool inside_ = false;  // stopped within a chunk or the large items
  uint32_t inside_chunk_ = 0;
  int64_t earliest_ = Chunk::never;     // of the items seen where it is inside
  int64_t next_of_all_ = Chunk::never;  // of the bounds passed
};

}  // namespace isotherm
