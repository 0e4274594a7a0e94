// ChunkWalk: a position in the memory of items, which walks over the chunks in classes in the order
// of their addresses, and from live item to live item within a chunk.
//
// Threads. A walk belongs to one thread at a time; what it reads are atomics.
#pragma once

#include <bit>
#include <cstdint>

#include "items/chunk_pool.h"

namespace isotherm {

// Live bits of one word of a chunk, of items of `size_class`.
struct LiveWord {
  uint32_t size_class = 0;
  uint64_t live = 0;

  // False if the chunk is in no class, changed its class meanwhile, or has no such word.
  static bool read(const Chunk& chunk, uint32_t word, LiveWord& out) {
    const int before = chunk.size_class();
    if (before == Chunk::no_class) return false;
    out.size_class = static_cast<uint32_t>(before);
    if (word >= Chunk::words_of(out.size_class)) return false;
    out.live = chunk.bits[word].live.load(std::memory_order_acquire);
    return chunk.size_class() == before;
  }
};

class ChunkWalk {
 public:
  ChunkWalk() = default;
  ChunkWalk(uint32_t number, uint32_t first_item) : item(first_item), chunk_(number) {}

  uint32_t number() const { return chunk_; }
  // The next item to look at in this chunk.
  uint32_t item = 0;

  void start() { *this = ChunkWalk{}; }
  // Goes to the first chunk in a class at or behind the position; false at the end, or when `steps`
  // (lowered by one per page and chunk) are used up: `at_end` tells which.
  bool find_chunk(const ChunkPool& pool, uint32_t& steps) {
    const uint32_t limit = pool.page_limit();
    for (uint32_t page = chunk_ / Chunk::per_page; page < limit; ++page) {
      if (steps == 0) return false;
      --steps;
      const uint32_t skip = chunk_ % Chunk::per_page;
      const uint32_t ahead = pool.in_classes(page) >> skip << skip;
      if (ahead != 0) {
        go_to(page * Chunk::per_page + static_cast<uint32_t>(std::countr_zero(ahead)));
        return true;
      }
      go_to((page + 1) * Chunk::per_page);
    }
    return false;
  }
  bool at_end(const ChunkPool& pool) const { return chunk_ / Chunk::per_page >= pool.page_limit(); }
  void next_chunk() { go_to(chunk_ + 1); }

  // Calls look(location, bit's mask) for the live items of the word that `item` is in, from `item`
  // on, and moves `item` behind the last one looked at, or to the next word. False when `look`
  // returned false. The caller has read `word`.
  template <class Look>
  bool each(const LiveWord& word, Look&& look) {
    const uint32_t first = item / 64 * 64;
    uint64_t live = word.live >> (item - first) << (item - first);
    for (; live != 0; live &= live - 1) {
      const auto i = static_cast<uint32_t>(std::countr_zero(live));
      item = first + i + 1;
      if (!look(Chunk::location(chunk_, word.size_class, first + i), live & (~live + 1))) {
        return false;
      }
    }
    item = first + 64;
    return true;
  }

 private:
  void go_to(uint32_t chunk) {
    if (chunk == chunk_) return;
    chunk_ = chunk;
    item = 0;
  }

  uint32_t chunk_ = 0;
};

}  // namespace isotherm
