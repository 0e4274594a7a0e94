// Database: one of Redis's numbered databases: an index and a few counters.
//
// The index is made by the first write and taken away whole by FLUSHDB, so an unused database costs
// nothing. Where memory is short the index of a database without keys goes, too. Versions go on
// over a flush: the next index starts where the last one ended. It is a LineIndex, or in a store
// with an index of a fixed size a CacheIndex; the other one stays null.
//
// Threads. Any within an epoch. Only the holder of all keys of the database may call `detach`
// (executor/key_gate.h). Others may still read the detached index until they leave their epoch.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "executor/walked_index.h"
#include "index/cache_index.h"
#include "index/line_index.h"

namespace isotherm {

class Database {
 public:
  ~Database();

  // Null while nothing was written.
  LineIndex* index() const { return index_.load(std::memory_order_acquire); }
  CacheIndex* cache() const { return cache_.load(std::memory_order_acquire); }
  // For walks over whichever there is, within an epoch.
  WalkedIndex walked() const { return {index(), cache()}; }
  // The root of a hash, or location::none, for those who are in no hurry; within an epoch.
  uint64_t root_of(uint64_t hash) const;

  // The index, made if there is none, with segments for `expected` entries; null when memory is
  // out.
  LineIndex* make_index(Pages& pages, MemoryBudget& budget, EpochDomain& epochs,
                        uint64_t expected = 0);

  // The same of an index of a fixed size, which make(first_version, parts) returns; `parts` is what
  // the last call left there, at first the largest number.
  template <class Make>
  CacheIndex* make_cache(Make&& make) {
    const std::lock_guard guard(make_mutex_);
    if (CacheIndex* made = cache(); made != nullptr) return made;
    CacheIndex* const made = make(first_version_, cache_parts_);
    cache_.store(made, std::memory_order_release);
    return made;
  }

  // Whether it may have entries.
  bool used() const {
    return index() != nullptr || cache() != nullptr ||
           entries_on_device.load(std::memory_order_relaxed) > 0;
  }

  // Whether it has an index that grows, and no entry in it.
  bool is_bare() const { return index() != nullptr && count() == 0; }

  // Takes the index away. Versions of the next one begin behind `flush_version`, which is larger
  // than any given before.
  DetachedIndex detach();
  uint64_t flush_version() const { return first_version_; }

  // Any thread, also outside of epochs: a flush waits until they have looked.
  uint64_t count() const;
  uint64_t splits() const;
  uint64_t joins() const;
  struct CacheUse {
    uint64_t bytes = 0;
    uint64_t room = 0;       // entries
    uint64_t displaced = 0;  // since it was made
  };
  // Of an index of a fixed size.
  CacheUse cache_use() const;

  // No smaller than any version given so far, while nobody writes; of an index in host memory.
  uint64_t last_version() const;
  // Versions that are given from now on are larger than `version`, likewise.
  void begin_versions(uint64_t version);

  // Items with an expiry.
  std::atomic<int64_t> expires{0};
  // Entries in an index on a device (executor/device/device_executor.h), which has those of all
  // databases.
  std::atomic<int64_t> entries_on_device{0};

 private:
  std::atomic<LineIndex*> index_{nullptr};
  std::atomic<CacheIndex*> cache_{nullptr};
  mutable std::mutex make_mutex_;
  uint64_t first_version_ = 0;
  uint64_t cache_parts_ = ~uint64_t{0};
};

}  // namespace isotherm
