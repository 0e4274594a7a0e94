// LiveWalk: a walk over all live items, in order of their addresses, then over the large ones.
//
// For work that needs every item once while nobody writes: taking a database out of an index,
// making an index anew. The walk passes items that are removed meanwhile, and may miss some that
// are added or moved.
//
// Threads. A walk belongs to one thread, which is within an epoch.
#pragma once

#include <cstdint>

#include "items/chunk_walk.h"
#include "items/large_items.h"
#include "items/visitor.h"

namespace isotherm {

class LiveWalk {
 public:
  LiveWalk() = default;
  // Only over the large ones.
  static LiveWalk of_large() {
    LiveWalk walk;
    walk.in_large_ = true;
    return walk;
  }
  // Visits the items of one page.
  static void page(ChunkPool& pool, uint32_t page, Visitor visit);

  // Visits about `limit` items; false when all were visited.
  bool step(ChunkPool& pool, LargeItems& large, uint32_t limit, Visitor visit);

 private:
  void visit_chunk(const Chunk& chunk, uint32_t& left, Visitor visit);

  ChunkWalk walk_;
  bool in_large_ = false;
  uint32_t large_number_ = 0;
};

}  // namespace isotherm
