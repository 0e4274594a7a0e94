// TreeRun: the changes of some time, newest of each key, until they are in the files of the tree.
//
// A run is cut by the keys' hashes in shards, so that several threads write to it. A shard finds
// keys by a table of their hashes. It is sorted when somebody first asks for its keys in order, and
// stays so from then on; and the whole run when it is written to files that have an order. So puts
// alone do not pay for an order. Keys and values are those of tree/tree_record.h, copied, since the
// item itself may be evicted, or replaced, before the run is written. A value that is replaced by
// one that is no longer takes its place.
//
//   active: put, by whoever changes a key ─▶ sealed: only read, until it was taken in
//
// Moments (tree/tree_moment.h). A change has the number of the moment that comes next, as its
// stamp, so a moment shows what has no larger one. What a change replaces is kept behind it where
// somebody holds a moment that shows it; so a moment costs nothing but a number, and what it shows
// stays where it is, as long as both are held.
//
// Threads. Each shard is protected by a lock of its owner's (tree/tree.h).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <forward_list>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/seed.h"
#include "base/short_lock.h"
#include "durability/journal_segment.h"
#include "tree/tree_files.h"
#include "tree/tree_record.h"

namespace isotherm {

class TreeRun {
 public:
  static constexpr uint32_t shards = 16;
  // Of the shards, their owner's. Beside each, so that it comes with it: no version that its shards
  // were told of is larger.
  struct alignas(64) Lock : ShortLock {
    std::atomic<uint64_t> last_version{0};
  };
  using Locks = std::array<Lock, shards>;

  // By a seed of the process's own, so that nobody can choose keys that lie behind one another.
  static uint64_t hash_of(uint32_t database, std::string_view key) {
    return hash_bytes(key, hash_seed + database);
  }
  static uint64_t hash_of(std::string_view tree_key) {
    return hash_of(TreeRecord::database_of(tree_key), tree_key.substr(TreeRecord::prefix_bytes));
  }
  static uint32_t shard_of(uint64_t hash) { return static_cast<uint32_t>(hash % shards); }

  // Both false: what the run knows of the key is nothing, or that it was erased.
  struct Found {
    bool known = false;
    bool erased = false;
    std::string_view value;
  };

  // Of what is shown without a moment: the newest.
  static constexpr uint64_t latest = ~uint64_t{0};

  // Null: the key is erased. `held`: the last moment that somebody holds. Throws std::bad_alloc,
  // and then the run shows what it did before.
  void put(uint64_t hash, std::string_view key, const TreeRecord* record, uint64_t stamp = 1,
           uint64_t held = 0);
  Found find(uint64_t hash, std::string_view key, uint64_t moment = latest) const;
  // At most `most` entries of the shard from `from` on, behind those that `to` has; whether that
  // was not all.
  bool copy(uint32_t shard, std::string_view from, std::string_view end, size_t most,
            std::vector<TreeEntry>& to, uint64_t moment = latest) const;
  // The same of those before `end`, the last first.
  bool copy_back(uint32_t shard, std::string_view from, std::string_view end, size_t most,
                 std::vector<TreeEntry>& to, uint64_t moment = latest) const;
  // Of a sealed run: all, in the order of the keys, or in any. By several threads.
  std::vector<TreeEntry> all(bool in_order, uint32_t threads) const;

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  bool empty() const { return bytes() == 0 && flushed.empty(); }

  // The journal's records before this segment are of changes in older runs.
  JournalSegment begins_with;
  // Of a sealed run, for who takes it in: all that it has is on disk in the journal.
  bool in_journal = false;
  // Databases of which nothing that is older than this run is left.
  std::set<uint32_t> flushed;

 private:
  static inline const uint64_t hash_seed = draw_seed();

  // What a key has had from a stamp on; `bytes` is 0 where it was erased. Of the newest, `room`
  // says how many there may be.
  struct State {
    char* at = nullptr;
    uint32_t bytes = 0;
    uint32_t room = 0;
    uint64_t stamp = 0;
    const State* older = nullptr;
    std::string_view value() const { return {at, bytes}; }
    // As the moment shows it; null: it knows nothing of the key.
    const State* at_moment(uint64_t moment) const {
      const State* state = this;
      while (state != nullptr && state->stamp > moment) state = state->older;
      return state;
    }
  };
  using Entry = std::pair<const std::string_view, State>;
  struct Slot {
    uint64_t hash = 0;
    Entry* entry = nullptr;
  };
  struct ByKey {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): a name of std::set's
    static std::string_view key(const Entry* entry) { return entry->first; }
    static std::string_view key(std::string_view key) { return key; }
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return key(a) < key(b);
    }
  };
  using InOrder = std::set<const Entry*, ByKey>;
  // What most changes look at is in the first line.
  struct alignas(64) Shard {
    std::vector<Slot> slots;  // a power of two, or none; a key lies behind its hash's place
    uint64_t keys = 0;
    char* next = nullptr;
    uint64_t left = 0;
    mutable std::unique_ptr<InOrder> in_order;
    std::forward_list<State> older;
    std::vector<std::unique_ptr<char[]>> chunks;
  };
  // Where the key is, or would be, of some slots.
  template <class Slots>
  static auto& slot_of(Slots& slots, uint64_t hash, std::string_view key) {
    const uint64_t mask = slots.size() - 1;
    // Hashes of a shard agree in their low bits.
    for (uint64_t at = hash / shards;; ++at) {
      auto& slot = slots[at & mask];
      if (slot.entry == nullptr || (slot.hash == hash && slot.entry->first == key)) return slot;
    }
  }
  // An entry with the first bytes of its key as two numbers, the highest byte first.
  struct Sorted {
    uint64_t high;
    uint64_t low;
    const Entry* entry;
    bool operator<(const Sorted& other) const {
      if (high != other.high) return high < other.high;
      if (low != other.low) return low < other.low;
      return entry->first < other.entry->first;
    }
  };
  static void collect(const Shard& shard, Sorted* to);
  const InOrder& in_order(const Shard& shard) const;
  Entry* make_entry(Shard& shard, uint64_t hash, std::string_view key, uint32_t room);
  void grow(Shard& shard);
  char* take(Shard& shard, uint64_t bytes);

  std::array<Shard, shards> shards_;
  mutable std::atomic<uint64_t> bytes_{0};
};

}  // namespace isotherm
