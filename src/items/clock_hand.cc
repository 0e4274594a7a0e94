#include "items/clock_hand.h"

#include <algorithm>

#include "items/item_store.h"

namespace isotherm {

uint32_t ClockHand::sweep(uint32_t limit, Visitor visit, bool volatile_only, uint64_t most_bytes) {
  std::unique_lock guard(mutex_, std::try_to_lock);
  if (!guard.owns_lock()) return 0;
  // Pages, chunks and words without items count as steps, so a sparse store costs no more.
  Turn turn{visit, volatile_only, most_bytes, limit, 0, 2 * limit + 64, false};
  if (most_bytes != any_size && large_.any_due()) pass_over(turn);
  while (!turn.over()) {
    if (large_.any_due() && visit_large(turn)) continue;
    if (walk_.find_chunk(pool_, turn.steps)) {
      sweep_chunk(turn);
      move_hand();
    } else if (walk_.at_end(pool_)) {
      walk_.start();
      ++rounds_;
      move_hand();
      turn.steps -= std::min(turn.steps, 1u);  // the walk to the end may have used up all
    }
  }
  return turn.looked;
}

void ClockHand::move_hand() { large_.move_hand(rounds_ * LargeItems::one_round + walk_.number()); }

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

// Clears the bits after the walk over the word, and only for items that it passed: those behind a
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

bool ClockHand::visit_large(Turn& turn) {
  Location location;
  if (!large_.take_due(turn.most_bytes, location)) return false;
  ++turn.looked;
  --turn.steps;
  if (location != location::none && wanted(turn, location)) turn.enough = !turn.visit(location);
  return true;
}

void ClockHand::pass_over(Turn& turn) {
  LargeItems::PassedOver larger;
  const uint32_t count = large_.due_above(turn.most_bytes, larger);
  for (uint32_t i = 0; i < count && !turn.over(); ++i) {
    ++turn.looked;
    if (larger[i] != location::none) turn.enough = !turn.visit(larger[i]);
  }
}

bool ClockHand::wanted(const Turn& turn, Location location) const {
  return !turn.volatile_only || store_.item(location)->expiry() != no_expiry;
}

}  // namespace isotherm
