// TreeRun: the changes of some time, newest of each key, until they are in the files of the tree.
//
// A run is cut by the keys' hashes in shards, each sorted, so that several threads write to it and
// a walk finds its place. Keys and values are those of tree/tree_record.h, copied, since the item
// itself may be evicted, or replaced, before the run is written. A value that is replaced by one
// that is no longer takes its place. A filter of the keys' hashes spares most searches in vain.
//
//   active: put, by whoever changes a key ─▶ sealed: only read, until it was taken in
//
// Threads. Each shard is protected by a lock of its owner's (tree/tree.h).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "durability/journal_segment.h"
#include "tree/tree_files.h"
#include "tree/tree_record.h"

namespace isotherm {

class TreeRun {
 public:
  static constexpr uint32_t shards = 16;
  static uint64_t hash_of(std::string_view key) { return hash_bytes(key, 0); }
  static uint32_t shard_of(uint64_t hash) { return static_cast<uint32_t>(hash % shards); }

  // Both false: what the run knows of the key is nothing, or that it was erased.
  struct Found {
    bool known = false;
    bool erased = false;
    std::string_view value;
  };

  // Null: the key is erased. Throws std::bad_alloc.
  void put(uint64_t hash, std::string_view key, const TreeRecord* record);
  Found find(uint64_t hash, std::string_view key) const;
  // At most `most` entries of the shard from `from` on, behind those that `to` has; whether that
  // was not all.
  bool copy(uint32_t shard, std::string_view from, std::string_view end, size_t most,
            std::vector<TreeEntry>& to) const;
  // Of a sealed run: all, in the order of the keys.
  std::vector<TreeEntry> sorted() const;

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  bool empty() const { return bytes() == 0 && flushed.empty(); }

  // The journal's records before this segment are of changes in older runs.
  JournalSegment begins_with;
  // Of a sealed run, for who takes it in: all that it has is on disk in the journal.
  bool in_journal = false;
  // Databases of which nothing that is older than this run is left.
  std::set<uint32_t> flushed;

 private:
  struct Place {
    char* at = nullptr;
    uint32_t bytes = 0;
    uint32_t room = 0;
  };
  struct Shard {
    std::map<std::string_view, Place> places;
    std::vector<std::unique_ptr<char[]>> chunks;
    char* next = nullptr;
    uint64_t left = 0;
    std::vector<uint64_t> filter = std::vector<uint64_t>(1);  // two bits a key; a power of two

    bool may_have(uint64_t hash) const { return has(hash >> 20) && has(hash >> 40); }
    void note(uint64_t hash) {
      set(hash >> 20);
      set(hash >> 40);
    }
    bool has(uint64_t bit) const {
      return (filter[bit / 64 & (filter.size() - 1)] >> (bit % 64) & 1) != 0;
    }
    void set(uint64_t bit) { filter[bit / 64 & (filter.size() - 1)] |= uint64_t{1} << (bit % 64); }
  };
  void note_new(Shard& shard, uint64_t hash);
  char* take(Shard& shard, uint64_t bytes);

  std::array<Shard, shards> shards_;
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace isotherm
