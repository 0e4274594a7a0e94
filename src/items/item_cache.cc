#include "items/item_cache.h"

#include <algorithm>
#include <new>

#include "base/broken.h"
#include "base/wait_for_memory.h"
#include "items/item_store.h"
#include "items/poison.h"

namespace isotherm {
namespace {

constexpr uint64_t filling_bytes = 32 << 10;
constexpr uint64_t most_items = 256;
// As much as a few turns of deep pipelines replace. These items come back from readers all at once;
// without room for them here they would go to the class and be fetched again each turn.
constexpr uint64_t kept_fillings = 4;
constexpr uint64_t most_kept_bytes = 4 << 20;
constexpr uint64_t kept_share = 512;   // of a cap
constexpr uint64_t share_of_all = 32;  // of a cap, that all threads may hold
// Raising the epoch looks at every thread's slot, so it is not done for a few items unless they
// have waited.
constexpr uint64_t worth_advancing = 64;
constexpr uint64_t worth_bytes = 4 << 20;  // few large items are worth it, too
constexpr uint32_t patience_calls = 16;

}  // namespace

ItemCache::ItemCache(ItemStore& store) : store_(store) {
  for (uint32_t c = 0; c < size_classes::count; ++c) {
    const uint64_t items = filling_bytes / size_classes::bytes_of(c);
    stacks_[c].filling = static_cast<uint32_t>(std::clamp<uint64_t>(items, 1, most_items));
  }
  store_.register_cache(this);
  follow_cap();
}

ItemCache::~ItemCache() {
  for (uint32_t c = 0; c < size_classes::count; ++c) {
    give_bottom(c, static_cast<uint32_t>(stacks_[c].items.size()));
  }
  while (!retired_.empty()) store_.leave_orphans(retired_);
  store_.unregister_cache(this);
}

Location ItemCache::allocate(uint64_t bytes, bool force) {
  if (ISOTHERM_UNLIKELY(bytes > size_classes::largest)) return allocate_large(bytes, force);
  if (ISOTHERM_UNLIKELY(drains_missed())) give_draining();
  const uint32_t size_class = size_classes::class_of(bytes);
  Stack& stack = stacks_[size_class];
  stack.used = true;
  if (ISOTHERM_UNLIKELY(stack.items.empty()) && !fill(size_class, force)) return location::none;
  const Location location = stack.items.back();
  stack.items.pop_back();
  free_bytes_ -= size_classes::bytes_of(size_class);
  prefetch_next(stack, size_class);
  poison::usable(store_.address(location), size_classes::bytes_of(size_class));
  return location;
}

// Prefetches an item that will be written soon, some allocations ahead.
__attribute__((always_inline)) inline void ItemCache::prefetch_next(const Stack& stack,
                                                                    uint32_t size_class) const {
  constexpr size_t ahead = 4;
  constexpr uint32_t one_line_class = size_classes::class_of(64);
  if (stack.items.size() < ahead) return;
  const char* const next = store_.address(stack.items.end()[-static_cast<ptrdiff_t>(ahead)]);
  __builtin_prefetch(next, 1);
  if (size_class > one_line_class) __builtin_prefetch(next + 64, 1);
}

Location ItemCache::allocate_large(uint64_t bytes, bool force) {
  Location location = store_.large_.allocate(bytes, false);
  if (location == location::none) {
    reclaim_all();
    location = store_.large_.allocate(bytes, false);
  }
  if (location == location::none && force) location = store_.large_.allocate(bytes, true);
  return location;
}

void ItemCache::reclaim_all() {
  if (retired_.empty() && !store_.has_retired_alone() && !store_.has_orphans()) return;
  constexpr uint64_t most_fields = 1 << 16;
  oldest_ = store_.epochs_.advance();
  store_.free_retired_alone(oldest_, most_fields);
  while (reclaim(default_limit, 0)) {
  }
}

void ItemCache::leave_retired() {
  if (retired_.empty()) return;
  reclaim_all();
  count_retired(-static_cast<int64_t>(store_.leave_orphans(retired_)));
}

// Takes its own retired items first: they are in the cache, and no lock is needed.
bool ItemCache::fill(uint32_t size_class, bool force) {
  Stack& stack = stacks_[size_class];
  if (!retired_.empty()) {
    reclaim(uint64_t{stack.filling} * 2, uint64_t{stack.filling} * 2);
    if (!stack.items.empty()) return true;
  }
  Location items[most_items];
  const uint32_t wanted = wanted_of(size_class);
  wait_for_memory([&] { stack.items.reserve(kept_fillings * wanted + 1); });
  uint32_t count = store_.classes_[size_class].take(items, wanted, false);
  if (count == 0) {
    reclaim_all();
    if (!stack.items.empty()) return true;
    give_other_classes(size_class);
    count = store_.classes_[size_class].take(items, wanted, false);
  }
  if (count == 0 && force) count = store_.classes_[size_class].take(items, 1, true);
  free_bytes_ += uint64_t{count} * size_classes::bytes_of(size_class);
  if (free_bytes_ > share_) give_other_classes(size_class);
  // Popped from the back, so that items leave in the order of their addresses.
  stack.items.insert(stack.items.end(), std::make_reverse_iterator(items + count),
                     std::make_reverse_iterator(items));
  return count != 0;
}

// False where there is no memory for a longer stack.
inline bool ItemCache::has_place(Stack& stack) {
  constexpr size_t fewest = 64;
  std::vector<Location>& items = stack.items;
  if (ISOTHERM_LIKELY(items.size() < items.capacity())) return true;
  try {
    items.reserve(std::max(fewest, 2 * items.capacity()));
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void ItemCache::push(Location location) {
  const uint32_t size_class = location::size_class(location);
  poison::freed(store_.address(location), size_classes::bytes_of(size_class));
  Stack& stack = stacks_[size_class];
  if (ISOTHERM_UNLIKELY(!has_place(stack))) return store_.classes_[size_class].give(&location, 1);
  stack.items.push_back(location::as(location::Kind::item, location));
  free_bytes_ += size_classes::bytes_of(size_class);
  if (ISOTHERM_UNLIKELY(store_.closed_chunks_.load(std::memory_order_relaxed) != 0) &&
      store_.is_draining(location)) {
    // Out again before the next allocation.
    stack.drains_seen = store_.classes_[size_class].drains() - 1;
    drains_seen_ = store_.drains_.load(std::memory_order_relaxed) - 1;
  }
  const uint64_t items = stack.items.size();
  if (items > kept_fillings * stack.filling &&
      items * size_classes::bytes_of(size_class) > kept_bytes_) {
    give_bottom(size_class, stack.filling);
  }
  if (ISOTHERM_UNLIKELY(free_bytes_ > share_)) give_share_back(size_class);
}

// The stacks that were not used last; of this one as much as it can do without.
void ItemCache::give_share_back(uint32_t size_class) {
  give_other_classes(size_class);
  const auto items = static_cast<uint32_t>(stacks_[size_class].items.size());
  if (free_bytes_ > share_) give_bottom(size_class, items - items / 2);
}

// How many items a stack gets at once.
uint32_t ItemCache::wanted_of(uint32_t size_class) const {
  constexpr uint64_t stacks_at_once = 4;
  const uint64_t most = share_ / stacks_at_once / size_classes::bytes_of(size_class);
  return static_cast<uint32_t>(std::clamp<uint64_t>(stacks_[size_class].filling, 1, most + 1));
}

void ItemCache::follow_cap() {
  const uint64_t cap = store_.budget_.limit();
  const uint64_t caches = std::max<uint64_t>(store_.count_of_caches_, 1);
  share_ = cap == 0 ? ~uint64_t{0} : cap / share_of_all / caches;
}

void ItemCache::give_bottom(uint32_t size_class, uint32_t count) {
  if (count == 0) return;
  std::vector<Location>& items = stacks_[size_class].items;
  store_.classes_[size_class].give(items.data(), count);
  items.erase(items.begin(), items.begin() + count);
  free_bytes_ -= uint64_t{count} * size_classes::bytes_of(size_class);
}

void ItemCache::give_other_classes(uint32_t size_class) {
  for (uint32_t c = 0; c < size_classes::count; ++c) {
    if (c != size_class) give_bottom(c, static_cast<uint32_t>(stacks_[c].items.size()));
  }
}

bool ItemCache::drains_missed() const {
  return store_.drains_.load(std::memory_order_acquire) != drains_seen_;
}

void ItemCache::give_draining() {
  drains_seen_ = store_.drains_.load(std::memory_order_acquire);
  for (uint32_t c = 0; c < size_classes::count; ++c) {
    Stack& stack = stacks_[c];
    const uint32_t drains = store_.classes_[c].drains();
    if (stack.drains_seen == drains) continue;
    stack.drains_seen = drains;
    const auto draining =
        std::partition(stack.items.begin(), stack.items.end(),
                       [&](Location location) { return store_.is_draining(location); });
    give_bottom(c, static_cast<uint32_t>(draining - stack.items.begin()));
  }
}

void ItemCache::release(Location location) {
  if (ItemStore::is_large(location)) {
    store_.large_.free(location);
  } else {
    push(location);
  }
}

void ItemCache::free_unpublished(Location location) { release(location); }

void ItemCache::retire(Location location) {
  if (ISOTHERM_LIKELY(location::kind(location) == location::Kind::item)) {
    store_.clear_bits(location);
  } else if (ItemStore::is_large(location) && store_.is_live(location)) {
    store_.clear_live(location);
  }
  if (broken(Rule::epochs)) return release(location);
  if (ISOTHERM_UNLIKELY(ItemStore::is_large(location))) return store_.retire_alone(location);
  const uint64_t bytes = ItemStore::footprint(location);
  retired_lately_ += bytes;
  count_retired(static_cast<int64_t>(bytes));
  // It is unlinked already.
  const RetiredQueue::Entry entry{location, store_.epochs_.current()};
  wait_for_memory([&] { retired_.push(entry); });
}

void ItemCache::count_retired(int64_t bytes) {
  retired_bytes_.store(retired_bytes() + static_cast<uint64_t>(bytes), std::memory_order_relaxed);
}

// True when the front of the queue may be reused.
bool ItemCache::front_is_free() const {
  return !retired_.empty() && retired_.front().epoch < oldest_;
}

bool ItemCache::reclaim(uint64_t limit) {
  follow_cap();
  const uint64_t cap = store_.budget_.limit();
  const uint64_t most = cap == 0 ? most_kept_bytes : std::min(most_kept_bytes, cap / kept_share);
  // Less at once only by and by: a batch may have several calls behind it.
  kept_bytes_ = std::min(most, std::max(2 * retired_lately_, kept_bytes_ - kept_bytes_ / 16));
  retired_lately_ = 0;
  return reclaim(limit, std::min<uint64_t>(limit, default_limit));
}

// `fields`: how many of objects; 0: neither objects nor large items.
bool ItemCache::reclaim(uint64_t limit, uint64_t fields) {
  ++calls_;
  keep_house();
  if (ISOTHERM_UNLIKELY(store_.has_orphans())) adopt_orphans(limit);
  bool more = false;
  if (ISOTHERM_UNLIKELY(store_.has_retired_alone()) && fields != 0) {
    oldest_ = store_.epochs_.advance();
    more = store_.free_retired_alone(oldest_, fields);
  }
  if (retired_.empty()) return more;
  if (!front_is_free() && (retired_.size() >= worth_advancing || retired_bytes() >= worth_bytes ||
                           calls_ % patience_calls == 0)) {
    oldest_ = store_.epochs_.advance();
  }
  const uint64_t most = std::max(limit, std::min<uint64_t>(retired_.size() / 8, 4 * limit));
  for (uint64_t freed = 0; front_is_free() && freed < most; ++freed) {
    const Location location = retired_.pop().location;
    count_retired(-static_cast<int64_t>(ItemStore::footprint(location)));
    release(location);
  }
  if (ISOTHERM_UNLIKELY(drains_missed())) give_draining();
  return front_is_free() || more;
}

void ItemCache::adopt_orphans(uint64_t limit) {
  RetiredQueue::Entry entry;
  for (uint64_t i = 0; i < limit && retired_.make_room() && store_.pop_orphan(entry); ++i) {
    count_retired(static_cast<int64_t>(ItemStore::footprint(entry.location)));
    retired_.push(entry);
  }
}

// Does what is cheap enough for every call: one class's stack, one look at the chunk pool.
void ItemCache::keep_house() {
  if (drains_missed()) give_draining();
  visited_ = (visited_ + 1) % size_classes::count;
  Stack& stack = stacks_[visited_];
  if (!stack.used && !stack.items.empty()) {
    give_bottom(visited_, static_cast<uint32_t>(stack.items.size()));
  }
  stack.used = false;
  store_.trim();
}

}  // namespace isotherm
