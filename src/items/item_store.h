// ItemStore: the memory of all items.
//
// Parts: items/pages.h (2 MiB pages in an arena) → items/chunk_pool.h (64 KiB chunks) →
// items/class_lists.h (chunks of one size class) → items/item_cache.h (free items of one thread);
// items/large_items.h for what is larger than the largest class; clock_hand.h, sampler.h,
// expiry_sweep.h and compactor.h find items in memory order, for eviction, expiry and compaction.
//
// The life of an item, with the index's part in brackets:
//   cache.allocate ─ write ─ set_live ─ [publish] … touch, note_expiry …
//   … [unlink] ─ cache.retire ─ reuse
// Set the live bit before the lock of the key's line is released, so that a thread that unlinks the
// item finds the bit set. From then on sweeps may meet the item, so it must be retired even if it
// is not published after all. An item that never was live may be freed by cache.free_unpublished.
// Collision nodes have the same life without a live bit.
//
// Objects (items/objects.h) lie beside; whoever unlinks the last item of one retires it, too.
//
// Liveness is a bit beside the chunk (items/chunk.h), set with release and read with acquire, so a
// thread that finds an item by its live bit may read it, within an epoch. A retired item is reused
// only when every epoch that might have seen it has ended (items/epoch.h).
//
// Threads. All functions of ItemStore: any thread. A cache: its own thread.
// Limits. Items up to 1 TiB; 4 TiB of items in chunks.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "base/striped_count.h"
#include "items/chunk_pool.h"
#include "items/class_lists.h"
#include "items/epoch.h"
#include "items/item.h"
#include "items/large_items.h"
#include "items/location.h"
#include "items/memory_budget.h"
#include "items/newest_items.h"
#include "items/objects.h"
#include "items/pages.h"
#include "items/probation.h"
#include "items/retired_queue.h"
#include "items/size_classes.h"
#include "items/visitor.h"

namespace isotherm {

class ClockHand;
class Compactor;
class ExpirySweep;
class ItemCache;
class LiveWalk;
class Sampler;

// Where the memory of items is, in bytes; for INFO.
struct ItemMemory {
  uint64_t chunks = 0;  // in classes
  uint64_t free = 0;    // of these: free items
  uint64_t stock = 0;   // resident chunks in no class
  uint64_t large = 0;   // large items
  uint64_t large_count = 0;
  uint64_t retired = 0;  // waiting for readers, in chunks
};

// One size class: 64 KiB chunks that it has, and live items in them.
struct ClassUse {
  uint64_t chunks = 0;
  uint64_t items = 0;
};

class ItemStore {
 public:
  using Cache = ItemCache;

  // All three must outlive the store. Throws std::bad_alloc.
  ItemStore(Pages& pages, MemoryBudget& budget, EpochDomain& epochs);
  // Every cache must be gone.
  ~ItemStore();
  ItemStore(const ItemStore&) = delete;
  ItemStore& operator=(const ItemStore&) = delete;

  char* address(Location location) const {
    const uint64_t place = location::place(location);
    if (ISOTHERM_UNLIKELY(is_large(location))) return reinterpret_cast<char*>(place);
    return base_ + place;
  }
  // Of one that lies in a chunk.
  Item* item_in_chunk(Location location) const {
    return reinterpret_cast<Item*>(base_ + location::place(location));
  }
  Item* item(Location location) const { return reinterpret_cast<Item*>(address(location)); }

  void set_live(Location location) {
    const bool large = is_large(location);
    if (ISOTHERM_UNLIKELY(large || location::size_class(location) >= NewestItems::first_class)) {
      newest_.add(location);
    }
    if (ISOTHERM_UNLIKELY(large)) return large_.publish(location);
    const Bit at(location);
    pool_.chunk(at.chunk).bits[at.word].live.fetch_or(at.mask);
  }
  // Of an item in a chunk: it is not live any more, and for the CLOCK the next item in this place
  // is a new one.
  void clear_bits(Location location) {
    const Bit at(location);
    Chunk::Bits& bits = pool_.chunk(at.chunk).bits[at.word];
    if ((bits.live.load(std::memory_order_acquire) & at.mask) != 0) bits.live.fetch_and(~at.mask);
    if ((bits.used.load(std::memory_order_relaxed) & at.mask) != 0) {
      bits.used.fetch_and(~at.mask, std::memory_order_relaxed);
    }
    take_proven(bits, location::size_class(location), at.mask);
  }
  // Returns whether it was live.
  bool clear_live(Location location) {
    if (ISOTHERM_UNLIKELY(is_large(location))) return large_.withdraw(location);
    const Bit at(location);
    return (pool_.chunk(at.chunk).bits[at.word].live.fetch_and(~at.mask) & at.mask) != 0;
  }
  bool is_live(Location location) const;
  // The same for a location in a chunk that may be of an earlier epoch: its place may now belong to
  // another item, even to one of another class.
  bool is_live_item(Location location) const;

  // Prefetches the bits that clear_live and touch change, for stages that know these items early.
  ISOTHERM_INLINE void prefetch_bits(Location location) const {
    if (is_large(location)) return;
    const uint32_t word = Chunk::item_number(location) / 64;
    __builtin_prefetch(&pool_.chunk(Chunk::number(location)).bits[word], 1);
  }

  // The item was read: the CLOCK gives it another lap. Tests first, so a hot item costs no write.
  void touch(Location location) {
    if (ISOTHERM_UNLIKELY(is_large(location))) {
      auto& state = LargeItems::header(location).state;
      if ((state.load(std::memory_order_relaxed) & LargeItems::Header::used) == 0) {
        state.fetch_or(LargeItems::Header::used, std::memory_order_relaxed);
      }
      return;
    }
    const Bit at(location);
    auto& used = pool_.chunk(at.chunk).bits[at.word].used;
    if ((used.load(std::memory_order_relaxed) & at.mask) == 0) {
      used.fetch_or(at.mask, std::memory_order_relaxed);
    }
  }

  // Whether it was read since the CLOCK last passed.
  bool is_used(Location location) const;

  // The item is on probation no more (items/clock_hand.h).
  void prove(Location location);
  bool is_proven(Location location) const;
  // The item at `to`, which is live, takes the place of the one at `from`.
  void hand_on_marks(Location from, Location to);
  Probation& probation() { return probation_; }
  // Whether the items on probation should give way, and not the proven ones.
  bool probation_exceeds();

  // Call after set_live, and after every later change of the expiry.
  void note_expiry(Location location, int64_t at_ms);

  // Bytes of the location's class, or what a large item takes; without the object of an item.
  static uint64_t footprint(Location location) {
    return is_large(location) ? LargeItems::charged(location)
                              : size_classes::bytes_of(location::size_class(location));
  }

  // The number of the location's class; of a large item one more than there are.
  static constexpr uint32_t class_number(Location location) {
    return is_large(location) ? size_classes::count : location::size_class(location);
  }

  // Keeps an item's memory while its value is sent (items/large_items.h); false for an item in a
  // chunk. The caller is within an epoch.
  static bool keep(Location location) {
    if (!is_large(location)) return false;
    LargeItems::keep(location);
    return true;
  }
  void let_go(Location location) { large_.let_go(location); }
  LargeItems& large_items() { return large_; }

  Objects& objects() { return objects_; }
  // Frees the object of an item that was live once no reader can see it.
  void retire_object(const Item& item) { retire_alone(item.object_location()); }

  // Bytes that are retired and not yet free: in all caches, and of large items and objects, which
  // the budget counts as passing.
  uint64_t retired_bytes() const { return retired_in_chunks() + retired_alone(); }
  uint64_t retired_alone() const { return retired_alone_bytes_.load(); }
  uint64_t retired_in_chunks() const;
  ItemMemory memory() const;
  // By class, counted chunk by chunk: about a millisecond a GiB.
  std::array<ClassUse, size_classes::count> class_uses() const;
  uint64_t large_bytes() const { return large_.bytes(); }
  // Whether it is the large item that was stored last.
  bool is_newest_large(Location location) {
    return location::kind(location) == location::Kind::large &&
           large_.is_newest(LargeItems::header(location));
  }
  uint64_t stock_bytes() const { return pool_.stock() * Chunk::bytes; }
  // A bounded step of giving free chunks back to the kernel; true while there is more.
  bool trim() { return pool_.trim(); }

  // Sweeps. The caller is within an epoch and holds no lock of a line. `visit` gets items that were
  // live a moment ago, so it acts only where the index still has the location; it returns false
  // when it has enough. A sweep looks at no more than `limit` items and returns how many it looked
  // at; 0 also while another thread sweeps. A visitor must not sweep.
  //
  // In CLOCK order (items/clock_hand.h); with `volatile_only`, items with an expiry. Large items of
  // more than `most_bytes` are visited, but keep their place in that order.
  uint32_t sweep_clock(uint32_t limit, Visitor visit, bool volatile_only = false,
                       uint64_t most_bytes = std::numeric_limits<uint64_t>::max());
  // Until no other thread sweeps in that order.
  void wait_for_clock();
  // Random items, and random items that have an expiry (items/sampler.h).
  uint32_t sweep_random(uint32_t limit, Visitor visit);
  uint32_t sample_volatile(uint32_t count, Visitor visit);
  // Items with an expiry of `now_ms` or earlier (items/expiry_sweep.h).
  uint32_t sweep_expired(int64_t now_ms, uint32_t limit, Visitor visit);
  // Empties sparse chunks (items/compactor.h). `relocate` copies the item to a new place of the
  // same size, sets it live, notes its expiry, swaps the location in the index and retires the old
  // one; it returns false when it got no memory.
  uint32_t compact(uint32_t limit, Visitor relocate);
  // All live items, step by step (items/live_walk.h); the result of `visit` is ignored.
  bool walk_live(LiveWalk& walk, uint32_t limit, Visitor visit);
  // The same for several threads: the items of a page below page_limit(), and the large ones.
  uint32_t page_limit() const { return pool_.page_limit(); }
  void walk_live_page(uint32_t page, Visitor visit);
  void walk_live_large(Visitor visit);

 private:
  friend class ClockHand;
  friend class ItemCache;

  // Where an item's bits are.
  struct Bit {
    explicit Bit(Location location) : chunk(Chunk::number(location)) {
      const uint32_t item = Chunk::item_number(location);
      word = item / 64;
      mask = uint64_t{1} << (item % 64);
    }
    uint32_t chunk;
    uint32_t word;
    uint64_t mask;
  };
  static constexpr bool is_large(Location location) {
    return location::kind(location) == location::Kind::large;
  }

  // Of items of one word. One that was retired meanwhile does not keep the bit: it is set before
  // `live` is read, and `clear_bits` reads it behind its change of `live`.
  void prove(Chunk::Bits& bits, uint32_t size_class, uint64_t mask) {
    const uint64_t set = mask & ~bits.proven.fetch_or(mask);
    count_proven(size_class, std::popcount(set));
    take_proven(bits, size_class, set & ~bits.live.load());
  }
  // Whether any of them had the bit.
  bool take_proven(Chunk::Bits& bits, uint32_t size_class, uint64_t mask) {
    if ((bits.proven.load() & mask) == 0) return false;
    const uint64_t taken = mask & bits.proven.fetch_and(~mask);
    count_proven(size_class, -std::popcount(taken));
    return taken != 0;
  }
  void count_proven(uint32_t size_class, int items) {
    if (items == 0) return;
    proven_bytes_.add(items * static_cast<int64_t>(size_classes::bytes_of(size_class)));
  }

  bool is_draining(Location location) const {
    return pool_.chunk(Chunk::number(location)).draining.load(std::memory_order_relaxed);
  }

  void register_cache(ItemCache* cache);
  void unregister_cache(ItemCache* cache);
  // Large items and objects of all threads that wait for readers: a thread that needs their memory
  // frees them, whichever thread retired them.
  void retire_alone(Location location);
  bool has_retired_alone() const { return retired_alone_waiting_.load() != 0; }
  // Frees of those that were retired before `oldest`, an item or object counting as some fields, at
  // most so many fields, or an eighth of all; whether more are left.
  bool free_retired_alone(uint64_t oldest, uint64_t fields);
  bool pop_retired_alone(uint64_t oldest, Location& location);
  static uint64_t bytes_alone(Location location);
  void free_alone(Location location);
  bool free_some_alone(Location location, uint64_t& fields);
  // Takes what a cache leaves behind when it ends, or its thread sleeps; `reclaim` of other caches
  // takes it over. Returns how many bytes; where there is no memory the rest stays in the queue.
  uint64_t leave_orphans(RetiredQueue& queue);
  bool has_orphans() const { return orphans_waiting_.load(std::memory_order_relaxed) != 0; }
  bool pop_orphan(RetiredQueue::Entry& entry);

  char* const base_;
  MemoryBudget& budget_;
  EpochDomain& epochs_;
  ChunkPool pool_;
  LargeItems large_;
  NewestItems newest_;
  Probation probation_;
  StripedCount proven_bytes_;  // in chunks
  Objects objects_;
  std::atomic<int64_t> free_bytes_{0};  // of all classes
  ClassLists classes_[size_classes::count];
  // Raised whenever some class begins to drain a chunk.
  std::atomic<uint64_t> drains_{0};
  // Chunks that are being drained; only a hint that there are any.
  std::atomic<uint64_t> closed_chunks_{0};
  // At most as large as every chunk's next expiry, except while a sweep is under way.
  std::atomic<int64_t> next_expiry_{Chunk::never};

  std::unique_ptr<ClockHand> clock_hand_;
  std::unique_ptr<Sampler> sampler_;
  std::unique_ptr<ExpirySweep> expiry_sweep_;
  std::unique_ptr<Compactor> compactor_;

  std::atomic<uint64_t> count_of_caches_{0};
  std::atomic<uint64_t> orphans_waiting_{0};
  std::atomic<uint64_t> retired_alone_waiting_{0};
  std::atomic<uint64_t> retired_alone_bytes_{0};
  mutable std::mutex mutex_;  // all below
  std::vector<ItemCache*> caches_;
  RetiredQueue orphans_;
  uint64_t orphan_bytes_ = 0;
  RetiredQueue retired_alone_;
  std::vector<Location> half_freed_;  // objects
};

}  // namespace isotherm

#include "items/item_cache.h"
