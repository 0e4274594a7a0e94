#include "items/expiry_sweep.h"

#include <algorithm>

#include "items/item_store.h"

namespace isotherm {
namespace {

constexpr uint32_t large_at_a_time = 16;

}  // namespace

uint32_t ExpirySweep::sweep(int64_t now_ms, uint32_t limit, Visitor visit) {
  std::unique_lock guard(mutex_, std::try_to_lock);
  if (!guard.owns_lock()) return 0;
  if (phase_ == Phase::idle && !begin(now_ms)) return 0;
  Share share{visit, now_ms, limit, 2 * limit + 64};
  while (phase_ != Phase::idle && !share.over()) {
    if (phase_ == Phase::large) {
      sweep_large(share);
    } else if (walk_.find_chunk(pool_, share.steps)) {
      sweep_chunk(share);
    } else if (walk_.at_end(pool_)) {
      inside_ = false;
      phase_ = Phase::large;
    }
  }
  return share.looked;
}

bool ExpirySweep::begin(int64_t now_ms) {
  if (next_expiry_.load() > now_ms) return false;
  next_expiry_.exchange(Chunk::never);
  phase_ = Phase::chunks;
  walk_.start();
  large_number_ = 0;
  inside_ = false;
  next_of_all_ = Chunk::never;
  return true;
}

void ExpirySweep::finish() {
  lower(next_expiry_, next_of_all_);
  phase_ = Phase::idle;
}

void ExpirySweep::enter(std::atomic<int64_t>& bound) {
  bound.exchange(Chunk::never);
  earliest_ = Chunk::never;
  inside_ = true;
}

void ExpirySweep::leave(std::atomic<int64_t>& bound) {
  lower(bound, earliest_);
  next_of_all_ = std::min(next_of_all_, bound.load());
  inside_ = false;
}

void ExpirySweep::sweep_chunk(Share& share) {
  Chunk& chunk = pool_.chunk(walk_.number());
  // If its chunk has left the class, the walk has moved on.
  if (!inside_ || inside_chunk_ != walk_.number()) {
    if (share.steps > 0) --share.steps;
    const int64_t bound = chunk.next_expiry.load();
    if (bound > share.now_ms) {
      next_of_all_ = std::min(next_of_all_, bound);
      walk_.next_chunk();
      return;
    }
    enter(chunk.next_expiry);
    inside_chunk_ = walk_.number();
  }
  LiveWord word;
  while (!share.over()) {
    --share.steps;
    if (!LiveWord::read(chunk, walk_.item / 64, word)) {
      leave(chunk.next_expiry);
      walk_.next_chunk();
      return;
    }
    walk_.each(word, [&](Location location, uint64_t) {
      look(share, location);
      return !share.over();
    });
  }
  lower(chunk.next_expiry, earliest_);
}

void ExpirySweep::sweep_large(Share& share) {
  std::atomic<int64_t>& bound = large_.next_expiry();
  if (!inside_) {
    if (bound.load() > share.now_ms) {
      next_of_all_ = std::min(next_of_all_, bound.load());
      finish();
      return;
    }
    enter(bound);
  }
  Location found[large_at_a_time];
  uint32_t looks = std::min(share.steps, large_at_a_time);
  share.steps -= looks;
  const uint32_t count = large_.find(large_number_, looks, found, large_at_a_time);
  for (uint32_t i = 0; i < count; ++i) look(share, found[i]);
  if (large_number_ == 0) {
    leave(bound);
    finish();
  } else {
    lower(bound, earliest_);
  }
}

// An item that is still live after the visit stays due.
void ExpirySweep::look(Share& share, Location location) {
  ++share.looked;
  const Item* item = store_.item(location);
  int64_t expiry = item->expiry();
  if (expiry == no_expiry) return;
  if (expiry <= share.now_ms && !share.enough) {
    share.enough = !share.visit(location);
    if (!store_.is_live(location)) return;
    expiry = item->expiry();
    if (expiry == no_expiry) return;
  }
  earliest_ = std::min(earliest_, expiry);
}

}  // namespace isotherm
