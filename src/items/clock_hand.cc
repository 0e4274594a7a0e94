#include "items/clock_hand.h"

#include <algorithm>

#include "items/item_store.h"

namespace isotherm {
namespace {


}  // namespace

uint32_t ClockHand::sweep(uint32_t limit, Visitor visit, bool volatile_only) {
  std::unique_lock guard(mutex_, std::try_to_lock);
  if (!guard.owns_lock()) return 0;
  // Pages, chunks and words without items count as steps, so a sparse store costs no more.
  Turn turn{visit, volatile_only, limit, 0, 2 * limit + 64, false};
  while (!turn.over()) {
    if (in_large_) {
      sweep_large(turn);
    } else if (walk_.find_chunk(pool_, turn.steps)) {
      sweep_chunk(turn);
    } else if (walk_.at_end(pool_)) {
      walk_.start();
      in_large_ = true;
      turn.steps -= std::min(turn.steps, 1u);  // the walk to the end may have used up all
    }
  }
  return turn.looked;
}

void ClockHand::sweep_chunk(Turn& turn) {
  Chunk& chunk = pool_.chunk(walk_.number());
  const bool skip =
      turn.volatile_only && chunk.next_expiry.load(std::memory_order_relaxed) == Chunk::never;
  LiveWord word;
  while (!turn.over()) {
    --turn.steps;
    if (skip || !LiveWord::read(chunk, walk_.item / 64, word)) {
      walk_.next_chunk();
      return;
    }
    sweep_word(turn, chunk, word);
  }
}

// Bits are cleared after the walk over the word, for the items it came past only: those behind a
// stop keep theirs.
void ClockHand::sweep_word(Turn& turn, Chunk& chunk, const LiveWord& word) {
  std::atomic<uint64_t>& used_word = chunk.bits[walk_.item / 64].used;
  const uint64_t used = used_word.load(std::memory_order_relaxed);
  ChunkWalk ahead = walk_;
  ahead.each({word.size_class, word.live & ~used}, [&](Location location, uint64_t) {
    __builtin_prefetch(store_.address(location));
    return true;
  });
  uint64_t passed = 0;
  walk_.each(word, [&](Location location, uint64_t bit) {
    ++turn.looked;
    if ((used & bit) != 0) {
      passed |= bit;
    } else if (wanted(turn, location)) {
      turn.enough = !turn.visit(location);
    }
    return !turn.over();
  });
  if (passed != 0) used_word.fetch_and(~passed, std::memory_order_relaxed);
}

void ClockHand::sweep_large(Turn& turn) {
  Location found[LargeItems::most_found];
  uint32_t looks = std::min(turn.steps, turn.limit - turn.looked);
  const uint32_t before = looks;
  const uint32_t count = large_.find(large_number_, looks, found, LargeItems::most_found, true);
  turn.looked += before - looks;
  turn.steps -= std::min(turn.steps, before - looks);
  for (uint32_t i = 0; i < count && !turn.enough; ++i) {
    if (wanted(turn, found[i])) turn.enough = !turn.visit(found[i]);
  }
  if (large_number_ == 0) in_large_ = false;
}

bool ClockHand::wanted(const Turn& turn, Location location) const {
  return !turn.volatile_only || store_.item(location)->expiry() != no_expiry;
}

}  // namespace isotherm
