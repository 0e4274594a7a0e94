#include "items/clock_hand.h"

#include <algorithm>

#include "items/item_store.h"

namespace isotherm {

uint32_t ClockHand::sweep(uint32_t limit, Visitor visit, bool volatile_only, uint64_t most_bytes) {
  std::unique_lock guard(mutex_, std::try_to_lock);
  if (!guard.owns_lock()) return 0;
  // Pages, chunks and words without items count as steps, so a sparse store costs no more.
  Share share{visit, volatile_only, most_bytes, limit, 0, 2 * limit + 64, false};
  if (most_bytes != any_size && large_.any_due()) pass_over(share);
  while (!share.over()) {
    if (large_.any_due() && visit_large(share)) continue;
    if (walk_.find_chunk(pool_, share.steps)) {
      sweep_chunk(share);
      move_hand();
    } else if (walk_.at_end(pool_)) {
      walk_.start();
      ++rounds_;
      move_hand();
      share.steps -= std::min(share.steps, 1u);  // the walk to the end may have used up all
    }
  }
  return share.looked;
}

void ClockHand::move_hand() { large_.move_hand(rounds_ * LargeItems::one_round + walk_.number()); }

void ClockHand::sweep_chunk(Share& share) {
  Chunk& chunk = pool_.chunk(walk_.number());
  const bool skip =
      share.volatile_only && chunk.next_expiry.load(std::memory_order_relaxed) == Chunk::never;
  LiveWord word;
  while (!share.over()) {
    --share.steps;
    if (skip || !LiveWord::read(chunk, walk_.item / 64, word)) {
      walk_.next_chunk();
      return;
    }
    sweep_word(share, chunk, word);
  }
}

// Clears the bits after the walk over the word, and only for items that it passed: those behind a
// stop keep theirs.
void ClockHand::sweep_word(Share& share, Chunk& chunk, const LiveWord& word) {
  std::atomic<uint64_t>& used_word = chunk.bits[walk_.item / 64].used;
  const uint64_t used = used_word.load(std::memory_order_relaxed);
  ChunkWalk ahead = walk_;
  ahead.each({word.size_class, word.live & ~used}, [&](Location location, uint64_t) {
    __builtin_prefetch(store_.address(location));
    return true;
  });
  uint64_t passed = 0;
  walk_.each(word, [&](Location location, uint64_t bit) {
    ++share.looked;
    const bool is_new = word.size_class >= NewestItems::first_class && newest_.pass_over(location);
    if ((used & bit) != 0) {
      passed |= bit;
    } else if (!is_new && wanted(share, location)) {
      share.enough = !share.visit(location);
    }
    return !share.over();
  });
  if (passed != 0) used_word.fetch_and(~passed, std::memory_order_relaxed);
}

bool ClockHand::visit_large(Share& share) {
  Location location;
  bool used = false;
  if (!large_.take_due(share.most_bytes, location, used)) return false;
  ++share.looked;
  --share.steps;
  const bool is_new = newest_.pass_over(location);
  if (!used && !is_new && wanted(share, location)) share.enough = !share.visit(location);
  return true;
}

void ClockHand::pass_over(Share& share) {
  LargeItems::PassedOver larger;
  const uint32_t count = large_.due_above(share.most_bytes, larger);
  for (uint32_t i = 0; i < count && !share.over(); ++i) {
    ++share.looked;
    if (larger[i] != location::none && !newest_.has(larger[i]))
      share.enough = !share.visit(larger[i]);
  }
}

bool ClockHand::wanted(const Share& share, Location location) const {
  return !share.volatile_only || store_.item(location)->expiry() != no_expiry;
}

}  // namespace isotherm
