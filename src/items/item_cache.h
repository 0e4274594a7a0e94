// ItemCache: the free items of one thread, and the items that it has retired.
//
// Per class a stack of free items. An empty stack is filled from the class in bulk, one lock for up
// to 256 items or 32 KiB, and an overfull one gives as much back. A stack that was not used between
// two visits of `reclaim` is given back whole, so an idle thread holds nothing. Retired items wait
// in a queue with the epoch of their retirement; `reclaim` moves those that no reader can see any
// more to the stacks. Large items of all threads wait in one queue and are freed soon, since
// raising the epoch for each costs less than writing the item did.
//
// Limits. A stack holds four fillings, or as much as a thread retires in one or two batches: it
// will take that again for the next, and in a class's lists it would wait for all others. That is
// at most 4 MiB, and a 512th of a cap on memory. Under a cap the stacks of all threads together
// hold a 32nd of it: where a thread has more than its share, its other stacks are given back, and
// its fillings are as small as that asks for.
//
// Threads. One; the counter of retired bytes may be read by any.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "items/location.h"
#include "items/retired_queue.h"
#include "items/size_classes.h"

namespace isotherm {

class ItemStore;

class ItemCache {
 public:
  explicit ItemCache(ItemStore& store);
  // Gives everything back; what still waits for readers goes to the store's orphans.
  ~ItemCache();
  ItemCache(const ItemCache&) = delete;
  ItemCache& operator=(const ItemCache&) = delete;

  // Room for `bytes`; its kind is item or large. location::none at the cap, with `force` as far
  // beyond it as a write may go (items/memory_budget.h), or when the machine has no more memory.
  Location allocate(uint64_t bytes, bool force = false);
  // Frees an item that no other thread could ever see.
  void free_unpublished(Location location);
  // Frees an item that was published and unlinked, once no reader can see it.
  void retire(Location location);

  // Frees retired items that no reader can see any more, at most `limit`, or an eighth of them and
  // four times `limit`, whichever of these is less, where that is more, so that no load makes them
  // pile up; and does a small share of the housekeeping. Of a large object it frees a part. It
  // costs nearly nothing when nothing waits. True while the limit left some behind.
  bool reclaim(uint64_t limit = default_limit);
  static constexpr uint32_t default_limit = 1024;
  // At the cap: frees whatever no reader holds back, but that of large objects, too, only a part.
  void reclaim_all();

  // Before its thread sleeps, at the cap: what readers hold back is for others to free.
  void leave_retired();

  uint64_t retired_bytes() const { return retired_bytes_.load(std::memory_order_relaxed); }

 private:
  struct Stack {
    std::vector<Location> items;
    uint32_t filling = 0;  // how many it gets at once
    uint32_t drains_seen = 0;
    bool used = false;  // since the last visit
  };

  void prefetch_next(const Stack& stack, uint32_t size_class) const;
  Location allocate_large(uint64_t bytes, bool force);
  bool fill(uint32_t size_class, bool force);
  static bool has_place(Stack& stack);
  void push(Location location);
  void release(Location location);
  void give_bottom(uint32_t size_class, uint32_t count);
  void give_other_classes(uint32_t size_class);
  void give_share_back(uint32_t size_class);
  uint32_t wanted_of(uint32_t size_class) const;
  void follow_cap();
  bool drains_missed() const;
  void give_draining();
  void keep_house();
  void count_retired(int64_t bytes);
  bool front_is_free() const;
  bool reclaim(uint64_t limit, uint64_t fields);
  void adopt_orphans(uint64_t limit);

  ItemStore& store_;
  Stack stacks_[size_classes::count];
  RetiredQueue retired_;
  std::atomic<uint64_t> retired_bytes_{0};
  uint64_t kept_bytes_ = 0;        // that a stack may hold, if its fillings are less
  uint64_t free_bytes_ = 0;        // in all stacks
  uint64_t share_ = ~uint64_t{0};  // of the cap, that these may hold
  uint64_t retired_lately_ = 0;    // bytes, since the last call of reclaim
  uint64_t oldest_ = 0;            // what was retired earlier is free
  uint32_t calls_ = 0;             // of reclaim
  uint32_t visited_ = 0;           // the class whose stack was looked at last
  uint64_t drains_seen_ = 0;
};

}  // namespace isotherm
