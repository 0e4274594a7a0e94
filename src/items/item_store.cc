#include "items/item_store.h"

#include <algorithm>
#include <bit>

#include "base/broken.h"
#include "base/wait_for_memory.h"
#include "items/chunk_walk.h"
#include "items/clock_hand.h"
#include "items/compactor.h"
#include "items/expiry_sweep.h"
#include "items/live_walk.h"
#include "items/sampler.h"

namespace isotherm {

ItemStore::ItemStore(Pages& pages, MemoryBudget& budget, EpochDomain& epochs)
    : base_(static_cast<char*>(pages.base())),
      budget_(budget),
      epochs_(epochs),
      pool_(pages, budget),
      large_(budget),
      probation_(budget, pages.capacity()),
      objects_(budget),
      clock_hand_(std::make_unique<ClockHand>(*this, pool_, large_, newest_)),
      sampler_(std::make_unique<Sampler>(*this, pool_, large_)),
      expiry_sweep_(std::make_unique<ExpirySweep>(*this, pool_, large_, next_expiry_)),
      compactor_(
          std::make_unique<Compactor>(pool_, classes_, free_bytes_, drains_, closed_chunks_)) {
  for (uint32_t c = 0; c < size_classes::count; ++c) classes_[c].open(pool_, c, free_bytes_);
  half_freed_.reserve(1 << 10);  // one a thread, at most
}

ItemStore::~ItemStore() {
  if (objects_.count() == 0) return;
  free_retired_alone(~uint64_t{0}, ~uint64_t{0});
  const auto free_object = [this](Location location) {
    if (item(location)->is_object()) objects_.free(item(location)->object_location());
    return true;
  };
  constexpr uint32_t at_a_time = 1024;
  LiveWalk walk;
  while (walk_live(walk, at_a_time, free_object)) {
  }
}

bool ItemStore::is_live(Location location) const {
  if (is_large(location)) {
    return (LargeItems::header(location).state.load(std::memory_order_acquire) &
            LargeItems::Header::live) != 0;
  }
  const Bit at(location);
  return (pool_.chunk(at.chunk).bits[at.word].live.load(std::memory_order_acquire) & at.mask) != 0;
}

bool ItemStore::is_live_item(Location location) const {
  const Bit at(location);
  LiveWord word;
  return LiveWord::read(pool_.chunk(at.chunk), at.word, word) &&
         word.size_class == location::size_class(location) && (word.live & at.mask) != 0;
}

bool ItemStore::is_used(Location location) const {
  if (is_large(location)) {
    return (LargeItems::header(location).state.load(std::memory_order_relaxed) &
            LargeItems::Header::used) != 0;
  }
  const Bit at(location);
  return (pool_.chunk(at.chunk).bits[at.word].used.load(std::memory_order_relaxed) & at.mask) != 0;
}

bool ItemStore::is_proven(Location location) const {
  if (is_large(location)) {
    return (LargeItems::header(location).state.load(std::memory_order_relaxed) &
            LargeItems::Header::proven) != 0;
  }
  const Bit at(location);
  return (pool_.chunk(at.chunk).bits[at.word].proven.load(std::memory_order_relaxed) & at.mask) !=
         0;
}

void ItemStore::prove(Location location) {
  if (is_large(location)) return large_.prove(location);
  const Bit at(location);
  prove(pool_.chunk(at.chunk).bits[at.word], location::size_class(location), at.mask);
}

void ItemStore::hand_on_marks(Location from, Location to) {
  if (is_used(from)) touch(to);
  if (is_proven(from)) prove(to);
}

// What is neither free nor of a proven item counts as on probation: mostly such items, and little
// else. A large item that alone is more than the share has to stay until its client can read it.
bool ItemStore::probation_exceeds() {
  const auto in_chunks = static_cast<int64_t>(pool_.chunks_in_classes() * Chunk::bytes) -
                         free_bytes_.load(std::memory_order_relaxed);
  const int64_t all = in_chunks + static_cast<int64_t>(large_.bytes());
  const int64_t proven = proven_bytes_.sum() + static_cast<int64_t>(large_.proven_bytes());
  const auto bytes = [](int64_t sum) { return static_cast<uint64_t>(std::max<int64_t>(sum, 0)); };
  const auto newest = static_cast<int64_t>(large_.newest_on_probation());
  return probation_.exceeds(bytes(all - proven - newest), bytes(all));
}

void ItemStore::note_expiry(Location location, int64_t at_ms) {
  if (at_ms == no_expiry) return;
  std::atomic<int64_t>& bound =
      is_large(location) ? large_.next_expiry() : pool_.chunk(Chunk::number(location)).next_expiry;
  // A write even where the bound is low enough already: a sweep that resets the bound afterwards
  // sees the item's expiry.
  bound.fetch_add(0);
  lower(bound, at_ms);
  lower(next_expiry_, at_ms);
}

void ItemStore::register_cache(ItemCache* cache) {
  std::lock_guard guard(mutex_);
  caches_.push_back(cache);
  count_of_caches_ = caches_.size();
}

void ItemStore::unregister_cache(ItemCache* cache) {
  std::lock_guard guard(mutex_);
  std::erase(caches_, cache);
  count_of_caches_ = caches_.size();
}

uint64_t ItemStore::leave_orphans(RetiredQueue& queue) {
  std::lock_guard guard(mutex_);
  uint64_t bytes = 0;
  for (; !queue.empty() && orphans_.make_room(); queue.pop()) {
    orphans_.push(queue.front());
    bytes += footprint(queue.front().location);
  }
  orphan_bytes_ += bytes;
  orphans_waiting_.store(orphans_.size(), std::memory_order_relaxed);
  return bytes;
}

bool ItemStore::pop_orphan(RetiredQueue::Entry& entry) {
  std::lock_guard guard(mutex_);
  if (orphans_.empty()) return false;
  entry = orphans_.pop();
  orphan_bytes_ -= footprint(entry.location);
  orphans_waiting_.store(orphans_.size(), std::memory_order_relaxed);
  return true;
}

uint64_t ItemStore::bytes_alone(Location location) {
  return is_large(location) ? LargeItems::charged(location) : Objects::bytes(location);
}

void ItemStore::free_alone(Location location) {
  is_large(location) ? large_.free(location) : objects_.free(location);
}

// The epoch is read under the lock, so that they are in the order of their epochs. It is unlinked
// already.
void ItemStore::retire_alone(Location location) {
  if (broken(Rule::epochs)) return free_alone(location);
  wait_for_memory([&] {
    const std::lock_guard guard(mutex_);
    retired_alone_.push({location, epochs_.current()});
    const uint64_t bytes = bytes_alone(location);
    budget_.passing.fetch_add(static_cast<int64_t>(bytes));
    retired_alone_bytes_.fetch_add(bytes);
    retired_alone_waiting_.store(retired_alone_.size() + half_freed_.size());
  });
}

bool ItemStore::pop_retired_alone(uint64_t oldest, Location& location) {
  const std::lock_guard guard(mutex_);
  if (!half_freed_.empty()) {
    location = half_freed_.back();
    half_freed_.pop_back();
  } else if (!retired_alone_.empty() && retired_alone_.front().epoch < oldest) {
    location = retired_alone_.pop().location;
  } else {
    return false;
  }
  retired_alone_waiting_.store(retired_alone_.size() + half_freed_.size());
  return true;
}

bool ItemStore::free_retired_alone(uint64_t oldest, uint64_t fields) {
  constexpr uint64_t fields_each = 16;
  fields = std::max(fields, retired_alone_waiting_.load() / 8 * fields_each);
  Location location = location::none;
  while (fields != 0) {
    if (!pop_retired_alone(oldest, location)) return false;
    const uint64_t bytes = bytes_alone(location);
    fields -= std::min(fields - 1, fields_each);
    const bool freed = free_some_alone(location, fields);
    // Passing until it is free.
    const uint64_t gone = bytes - (freed ? 0 : bytes_alone(location));
    budget_.passing.fetch_sub(static_cast<int64_t>(gone));
    retired_alone_bytes_.fetch_sub(gone);
    if (freed) continue;
    const std::lock_guard guard(mutex_);
    half_freed_.push_back(location);
    retired_alone_waiting_.store(retired_alone_.size() + half_freed_.size());
  }
  return has_retired_alone();
}

bool ItemStore::free_some_alone(Location location, uint64_t& fields) {
  if (!is_large(location)) return objects_.free_some(location, fields);
  --fields;
  large_.free(location);
  return true;
}

uint64_t ItemStore::retired_in_chunks() const {
  std::lock_guard guard(mutex_);
  uint64_t sum = orphan_bytes_;
  for (const ItemCache* cache : caches_) sum += cache->retired_bytes();
  return sum;
}

ItemMemory ItemStore::memory() const {
  ItemMemory memory;
  memory.chunks = pool_.chunks_in_classes() * Chunk::bytes;
  memory.free = static_cast<uint64_t>(std::max<int64_t>(free_bytes_.load(), 0));
  memory.stock = stock_bytes();
  memory.large = large_.bytes();
  memory.large_count = large_.count();
  memory.retired = retired_in_chunks();
  return memory;
}

std::array<ClassUse, size_classes::count> ItemStore::class_uses() const {
  std::array<ClassUse, size_classes::count> uses;
  for (uint32_t page = 0; page < pool_.page_limit(); ++page) {
    for (uint32_t mask = pool_.in_classes(page); mask != 0; mask &= mask - 1) {
      const auto place = static_cast<uint32_t>(std::countr_zero(mask));
      const Chunk& chunk = pool_.chunk(page * Chunk::per_page + place);
      const int size_class = chunk.size_class();
      if (size_class == Chunk::no_class) continue;
      ClassUse& use = uses[static_cast<size_t>(size_class)];
      ++use.chunks;
      for (uint32_t w = 0; w < Chunk::words_of(static_cast<uint32_t>(size_class)); ++w) {
        const uint64_t live = chunk.bits[w].live.load(std::memory_order_relaxed);
        use.items += static_cast<uint64_t>(std::popcount(live));
      }
    }
  }
  return uses;
}

uint32_t ItemStore::sweep_clock(uint32_t limit, Visitor visit, bool volatile_only,
                                uint64_t most_bytes) {
  return clock_hand_->sweep(limit, visit, volatile_only, most_bytes);
}
void ItemStore::wait_for_clock() { clock_hand_->wait_until_free(); }
uint32_t ItemStore::sweep_random(uint32_t limit, Visitor visit) {
  return sampler_->any(limit, visit);
}
uint32_t ItemStore::sweep_expired(int64_t now_ms, uint32_t limit, Visitor visit) {
  return expiry_sweep_->sweep(now_ms, limit, visit);
}
uint32_t ItemStore::sample_volatile(uint32_t count, Visitor visit) {
  return sampler_->with_expiry(count, visit);
}
uint32_t ItemStore::compact(uint32_t limit, Visitor relocate) {
  return compactor_->step(limit, relocate);
}

bool ItemStore::walk_live(LiveWalk& walk, uint32_t limit, Visitor visit) {
  return walk.step(pool_, large_, limit, visit);
}

void ItemStore::walk_live_page(uint32_t page, Visitor visit) { LiveWalk::page(pool_, page, visit); }

void ItemStore::walk_live_large(Visitor visit) {
  LiveWalk walk = LiveWalk::of_large();
  while (walk.step(pool_, large_, 1, visit)) {
  }
}

}  // namespace isotherm
