// EvictingIndex: an index of a fixed size (index/cache_index.h) as whoever changes an item sees it:
// what has to go for a new key is evicted as upkeep evicts (executor/upkeep/host_upkeep.h). Its
// find and update are those of a LineIndex, so whatever works on an index works on this.
//
// Which items may go. None of keys that a group of another batch has (executor/key_gate.h): what a
// guard has found there stays. A group may lose keys of its own, as if they had been evicted right
// behind it. If all that could go have to stay, the row finds no memory. A thread whose rows are
// shown to the gate has shown only the keys of these, so before it asks about others it says that
// it works, as upkeep does.
//
// When. A sink is told of the end of the evicted items under the part's lock, before anybody can
// miss them. Behind the lock they retire by epoch: who has found one reads it to the end of its
// batch.
//
// Threads. One object a row, within an epoch.
#pragma once

#include <cstdint>

#include "executor/host/host_executor.h"
#include "index/cache_index.h"

namespace isotherm {

// One eviction.
class Eviction {
 public:
  Eviction(HostExecutor& executor, uint32_t database) : executor_(executor), database_(database) {}
  Eviction(const Eviction&) = delete;
  Eviction& operator=(const Eviction&) = delete;

  // Whether what the root leads to may go; then it is told. Under the lock of its part.
  bool begin(uint64_t hash, Location root, CacheIndex::Group& versions);
  // Behind the lock: what was to go has gone.
  void end();
  bool any() const { return root_ != location::none; }
  // Says that it works no more.
  void rest();

 private:
  bool is_held(uint64_t hash);

  HostExecutor& executor_;
  const uint32_t database_;
  Location root_ = location::none;
  bool works_ = false;
};

template <class Part>
class EvictingIndex {
 public:
  EvictingIndex() = default;
  // `time`: of the request (CacheIndexOf::update).
  ISOTHERM_INLINE EvictingIndex(CacheIndexOf<Part>& index, HostExecutor& executor,
                                uint32_t database, uint64_t time)
      : index_(&index), executor_(&executor), database_(database), time_(time) {}

  template <class Tile>
  ISOTHERM_INLINE Found find(uint64_t hash) const {
    const CachePlace place = index_->find(hash);
    return {place.found, place.word};
  }
  template <class Tile, class Decide, class Publish = NoPublish>
  ISOTHERM_INLINE Updated update(uint64_t hash, Decide&& decide, Publish&& publish = {}) {
    Eviction eviction(*executor_, database_);
    const auto evict = [&](uint64_t its, Location root, CacheIndex::Group& versions) {
      return eviction.begin(its, root, versions);
    };
    const Updated updated = index_->update(hash, time_, decide, evict, publish);
    eviction.rest();
    if (ISOTHERM_UNLIKELY(eviction.any())) eviction.end();
    return updated;
  }

 private:
  CacheIndexOf<Part>* index_ = nullptr;
  HostExecutor* executor_ = nullptr;
  uint32_t database_ = 0;
  uint64_t time_ = 0;
};

}  // namespace isotherm
