// Sampler: random live items, and random live items that have an expiry.
//
// A sample is an item behind a random place of a random chunk, or a random large item; each kind is
// drawn in proportion to its bytes. Items of sparse chunks come a little more often than others,
// which evens chunks out.
//
// Threads. One at a time, by try_lock.
#pragma once

#include <cstdint>
#include <mutex>

#include "items/chunk_pool.h"
#include "items/large_items.h"
#include "items/visitor.h"

namespace isotherm {

class ItemStore;

class Sampler {
 public:
  Sampler(const ItemStore& store, ChunkPool& pool, LargeItems& large)
      : store_(store), pool_(pool), large_(large) {}

  uint32_t any(uint32_t limit, Visitor visit) { return sample(limit, visit, false); }
  uint32_t with_expiry(uint32_t limit, Visitor visit) { return sample(limit, visit, true); }

 private:
  uint32_t sample(uint32_t limit, Visitor visit, bool with_expiry);
  Location draw(bool with_expiry);
  Location draw_large();
  uint32_t random_chunk();
  uint64_t random(uint64_t below);

  const ItemStore& store_;
  ChunkPool& pool_;
  LargeItems& large_;
  std::mutex mutex_;  // all below
  uint64_t state_ = 0x9e3779b97f4a7c15;
};

}  // namespace isotherm
