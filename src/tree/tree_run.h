// TreeRun: the changes of some time, newest of each key, until they are in the files of the tree.
//
// A run is cut by the keys' hashes in shards, so that several threads write to it. A shard finds
// keys by a table of their hashes. The run is sorted (tree/run_order.h) when somebody first asks
// for its keys in order; from then on shards list their new keys, which are sorted in when somebody
// asks again. So puts alone do not pay for an order, and puts beside ranges little. Keys and values
// are those of tree/tree_record.h, copied, since the item itself may be evicted, or replaced,
// before the run is written. A value that is replaced by one that is no longer takes its place.
//
//   active: put, by whoever changes a key ─▶ sealed: only read, until it was taken in
//
// Moments (tree/tree_moment.h). A change has the number of the moment that comes next, as its
// stamp, so a moment shows what has no larger one. What a change replaces is kept behind it where
// somebody holds a moment that shows it; so a moment costs nothing but a number, and what it shows
// stays where it is, as long as both are held (tree/run_entry.h).
//
// Threads. Each shard is protected by a lock of its owner's (tree/tree.h). What is in order is read
// without one, at a moment, or when the run was sealed.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <forward_list>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <vector>

#include "base/short_lock.h"
#include "durability/journal_segment.h"
#include "tree/run_entry.h"
#include "tree/run_order.h"
#include "tree/tree_files.h"
#include "tree/tree_record.h"

namespace isotherm {

class TreeRun {
 public:
  static constexpr uint32_t shards = 64;

  TreeRun() = default;
  // With tables of the size that it will want if it becomes as `before`, a sealed run, made by
  // several threads: where tables grow, all who put wait for one shard after the other. `lists`:
  // its keys will be asked for in order, as those of the other were. Throws std::bad_alloc.
  TreeRun(const TreeRun& before, bool lists, uint32_t threads);
  // Of the shards, their owner's. Beside each, so that it comes with it: no version that its shards
  // were told of is larger.
  struct alignas(64) Lock : ShortLock {
    std::atomic<uint64_t> last_version{0};
  };
  using Locks = std::array<Lock, shards>;

  // Hashes are those of the tree's owner (Tree::hash_of).
  static uint32_t shard_of(uint64_t hash) { return static_cast<uint32_t>(hash % shards); }
  // Where keys of one shard were found last, so that a thread without its lock can fetch what the
  // next change of a key looks at. They may be gone: nothing but a prefetch goes there.
  class alignas(16) Places {
   public:
    // With the lock of the shard.
    void note(const TreeRun& run, uint64_t hash) {
      const Shard& shard = run.shards_[shard_of(hash)];
      const auto first = reinterpret_cast<uintptr_t>(shard.slots.data());
      if (first == first_.load(std::memory_order_relaxed)) return;
      first_.store(first, std::memory_order_relaxed);
      mask_.store(shard.slots.size() - 1, std::memory_order_relaxed);
    }
    void fetch(uint64_t hash) const {
      const uint64_t slot = hash / shards & mask_.load(std::memory_order_relaxed);
      const uintptr_t first = first_.load(std::memory_order_relaxed);
      __builtin_prefetch(reinterpret_cast<const void*>(first + slot * sizeof(Slot)), 1);
    }

   private:
    std::atomic<uintptr_t> first_{0};
    std::atomic<uint64_t> mask_{0};
  };

  // Both false: what the run knows of the key is nothing, or that it was erased.
  struct Found {
    bool known = false;
    bool erased = false;
    std::string_view value;
  };

  // Null: the key is erased. `held`: the last moment that somebody holds. Throws std::bad_alloc,
  // and then the run shows what it did before.
  void put(uint64_t hash, std::string_view key, const TreeRecord* record, uint64_t stamp = 1,
           uint64_t held = 0);
  Found find(uint64_t hash, std::string_view key, uint64_t moment = RunEntry::latest) const;
  // All keys that were put before this call; by several threads where there are many. Who calls has
  // none of the locks. Throws std::bad_alloc.
  std::shared_ptr<const RunOrder> in_order(Locks& locks, uint32_t threads) const;
  // Whether somebody has asked for that. With the lock of the first shard.
  bool lists() const { return shards_.front().lists; }
  // Nothing is put any more.
  void seal() { sealed_.store(true, std::memory_order_release); }
  // Of a sealed run: all, in the order of the keys, or in any. By several threads.
  std::vector<TreeEntry> all(bool in_order, uint32_t threads) const;

  // Tables count from the first key of their shard on.
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Of tables that it was made with.
  uint64_t first_bytes() const { return first_slots_ * shards * sizeof(Slot); }
  bool empty() const { return bytes() == 0 && flushed.empty(); }

  // The journal's records before this segment are of changes in older runs.
  JournalSegment begins_with;
  // Of a sealed run, for who takes it in: all that it has is on disk in the journal.
  bool in_journal = false;
  // And the files may have what it had at this moment, or all of it (RunEntry::latest), since to
  // take it in was tried.
  uint64_t in_files_upto = 0;
  // Databases of which nothing that is older than this run is left.
  std::set<uint32_t> flushed;

 private:
  struct Slot {
    uint64_t hash = 0;
    RunEntry* entry = nullptr;
  };
  // What most changes look at is in the first line.
  struct alignas(64) Shard {
    std::vector<Slot> slots;  // a power of two, or none; a key lies behind its hash's place
    uint64_t keys = 0;
    char* next = nullptr;
    uint64_t left = 0;
    bool lists = false;  // new keys
    std::vector<const RunEntry*> listed;
    std::forward_list<RunEntry::Kept> kept;
    std::vector<std::unique_ptr<char[]>> pieces;
  };
  // Where the key is, or would be, of some slots.
  template <class Slots>
  static auto& slot_of(Slots& slots, uint64_t hash, std::string_view key) {
    const uint64_t mask = slots.size() - 1;
    // Hashes of a shard agree in their low bits.
    for (uint64_t at = hash / shards;; ++at) {
      auto& slot = slots[at & mask];
      if (slot.entry == nullptr || (slot.hash == hash && slot.entry->key() == key)) return slot;
    }
  }
  static void collect(const Shard& shard, RunPlace* to);
  void collect_new(Locks& locks) const;
  RunEntry* make_entry(Shard& shard, uint64_t hash, std::string_view key, uint32_t room);
  void grow(Shard& shard);
  char* take(Shard& shard, uint64_t bytes);

  size_t first_slots_ = 0;  // of a shard
  mutable std::array<Shard, shards> shards_;
  mutable std::atomic<uint64_t> bytes_{0};
  std::atomic<bool> sealed_{false};
  mutable std::atomic<bool> any_listed_{true};  // or nobody has asked yet

  mutable std::mutex order_mutex_;  // of what follows
  mutable std::shared_ptr<const RunOrder> order_ = std::make_shared<const RunOrder>();
  mutable std::vector<RunPlace> unsorted_;  // on the way to the order
};

}  // namespace isotherm
