#include "items/clock_hand.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "items/item_store.h"

namespace isotherm {

uint32_t ClockHand::sweep(uint32_t limit, Visitor visit, bool volatile_only, uint64_t most_bytes) {
  std::unique_lock guard(mutex_, std::try_to_lock);
  if (!guard.owns_lock()) return 0;
  const bool proven = !store_.probation_exceeds();
  // Pages, chunks and words without items count as steps, so a sparse store costs no more.
  const uint32_t steps = 2 * limit + 64;
  Share share{hands_[proven], visit, volatile_only, most_bytes, limit, steps};
  go(share, true);
  if (share.visited != 0 || (share.looked != 0 && !volatile_only)) return share.looked;
  Share other{hands_[!proven], visit, volatile_only, most_bytes, limit, steps};
  go(other, false);
  return share.looked + other.looked;
}

// With `stops` no further than the end of a lap after which the other hand should move: all that
// is left of a kind may have been stored a moment ago.
void ClockHand::go(Share& share, bool stops) {
  Hand& hand = share.hand;
  if (share.most_bytes != any_size && large_.any_due(hand.proven)) pass_over(share);
  while (!share.over()) {
    if (large_.any_due(hand.proven) && visit_large(share)) continue;
    if (hand.walk.find_chunk(pool_, share.steps)) {
      sweep_chunk(share);
      move_hand(hand);
    } else if (hand.walk.at_end(pool_)) {
      begin_lap(hand);
      share.steps -= std::min(share.steps, 1u);  // the walk to the end may have used up all
      if (stops && store_.probation_exceeds() == hand.proven) return;
    }
  }
}

void ClockHand::begin_lap(Hand& hand) {
  hand.walk.start();
  ++hand.laps;
  move_hand(hand);
  store_.probation().fit(std::exchange(hand.live, 0) + large_.count());
}

void ClockHand::move_hand(const Hand& hand) {
  large_.move_hand(hand.proven, hand.laps * LargeItems::one_lap + hand.walk.number());
}

void ClockHand::sweep_chunk(Share& share) {
  ChunkWalk& walk = share.hand.walk;
  Chunk& chunk = pool_.chunk(walk.number());
  const bool skip =
      share.volatile_only && chunk.next_expiry.load(std::memory_order_relaxed) == Chunk::never;
  LiveWord word;
  while (!share.over()) {
    --share.steps;
    if (skip || !LiveWord::read(chunk, walk.item / 64, word)) {
      walk.next_chunk();
      return;
    }
    if (walk.item % 64 == 0) share.hand.live += static_cast<uint64_t>(std::popcount(word.live));
    sweep_word(share, chunk, word);
  }
}

// Clears the bits after the walk over the word, and only for items that it passed: those behind a
// stop keep theirs.
void ClockHand::sweep_word(Share& share, Chunk& chunk, LiveWord word) {
  ChunkWalk& walk = share.hand.walk;
  Chunk::Bits& bits = chunk.bits[walk.item / 64];
  const uint64_t used = bits.used.load(std::memory_order_relaxed);
  const uint64_t proven = bits.proven.load(std::memory_order_relaxed);
  word.live &= share.hand.proven ? proven : ~proven;
  ChunkWalk ahead = walk;
  ahead.each({word.size_class, word.live & ~used}, [&](Location location, uint64_t) {
    __builtin_prefetch(store_.address(location));
    return true;
  });
  uint64_t passed = 0;
  walk.each(word, [&](Location location, uint64_t bit) {
    ++share.looked;
    const bool is_new = word.size_class >= NewestItems::first_class && newest_.pass_over(location);
    if ((used & bit) != 0) {
      passed |= bit;
    } else if (!is_new) {
      visit_wanted(share, location);
    }
    return !share.over();
  });
  if (passed == 0) return;
  bits.used.fetch_and(~passed, std::memory_order_relaxed);
  if (!share.hand.proven) store_.prove(bits, word.size_class, passed);
}

bool ClockHand::visit_large(Share& share) {
  Location location;
  bool used = false;
  if (!large_.take_due(share.hand.proven, share.most_bytes, location, used)) return false;
  ++share.looked;
  --share.steps;
  const bool is_new = newest_.pass_over(location);
  if (used && !share.hand.proven) large_.prove(location);
  if (!used && !is_new) visit_wanted(share, location);
  return true;
}

void ClockHand::pass_over(Share& share) {
  LargeItems::PassedOver larger;
  const uint32_t count = large_.due_above(share.hand.proven, share.most_bytes, larger);
  for (uint32_t i = 0; i < count && !share.over(); ++i) {
    ++share.looked;
    if (larger[i] != location::none && !newest_.has(larger[i]))
      share.enough = !share.visit(larger[i]);
  }
}

// Of sweeps for items with an expiry only those.
void ClockHand::visit_wanted(Share& share, Location location) {
  if (share.volatile_only && store_.item(location)->expiry() == no_expiry) return;
  ++share.visited;
  share.enough = !share.visit(location);
}

}  // namespace isotherm
