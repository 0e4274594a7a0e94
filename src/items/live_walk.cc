#include "items/live_walk.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace isotherm {

bool LiveWalk::step(ChunkPool& pool, LargeItems& large, uint32_t limit, Visitor visit) {
  uint32_t left = std::max(limit, 1u);
  while (!in_large_ && left > 0) {
    uint32_t steps = 1 << 10;
    if (walk_.find_chunk(pool, steps)) {
      visit_chunk(pool.chunk(walk_.number()), left, visit);
    } else if (walk_.at_end(pool)) {
      in_large_ = true;
    }
  }
  while (left > 0) {
    constexpr uint32_t at_a_time = 64;
    Location found[at_a_time];
    uint32_t looks = at_a_time;
    const uint32_t count = large.find(large_number_, looks, found, at_a_time);
    for (uint32_t i = 0; i < count; ++i) visit(found[i]);
    if (large_number_ == 0) return false;
    left -= std::min(left, at_a_time);
  }
  return true;
}

void LiveWalk::page(ChunkPool& pool, uint32_t page, Visitor visit) {
  for (uint32_t chunks = pool.in_classes(page); chunks != 0; chunks &= chunks - 1) {
    const uint32_t number =
        page * Chunk::per_page + static_cast<uint32_t>(std::countr_zero(chunks));
    LiveWalk walk;
    walk.walk_ = ChunkWalk(number, 0);
    uint32_t left = std::numeric_limits<uint32_t>::max();
    walk.visit_chunk(pool.chunk(number), left, visit);
  }
}

void LiveWalk::visit_chunk(const Chunk& chunk, uint32_t& left, Visitor visit) {
  LiveWord word;
  while (left > 0) {
    if (!LiveWord::read(chunk, walk_.item / 64, word)) return walk_.next_chunk();
    walk_.each(word, [&](Location location, uint64_t) {
      visit(location);
      return --left > 0;
    });
  }
}

}  // namespace isotherm
