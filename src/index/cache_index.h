// CacheIndex: an index of a fixed size for the items of a store (index/item_table.h): maps hashes
// to roots as a LineIndex does, and has an older entry go where there is no room for a new one.
//
// Layout. The parts of one of the two kinds (index/cache_unit.h), in one run of memory. A hash
// belongs to a part by its top bits, so parts in their order are ranges of hashes, and walks go
// over them as over lines. Some parts that follow each other are a group, which has what writers
// need beside the parts: the clock that versions come from, and the number of entries, by which
// walks pass over what is empty.
//
// Cells. An entry is {64-bit hash, 64-bit location}; the cuckoo kind's cells of 8 bytes name
// entries of their own partition (index/cuckoo_part.h). Equal hashes of different keys have one
// entry, whose root leads to both.
//
// Eviction. `update` plans where a new entry goes, and asks `evict(hash, root, group)` whether the
// entry that it would take the place of may go; if not, the next one is asked, and if all stay,
// there is no room and nothing changes. When `evict` has said yes the change is certain, so it is
// the moment to tell of the victim's end. All of this is under the part's lock. Behind it the
// caller retires what the evicted root leads to, by epoch: readers may have found it.
//
// Threads. find: any number, within an epoch, without a lock. update: any number, within an epoch;
// writers of one part take turns by its lock. Walks take the lock of a part as long as they copy
// it. Limits. The size is that of its making. Entries with hash 0 do not exist. Sources. Mega-KV,
// section 4; MemcachedGPU, sections 4.2 and 4.3.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "index/cuckoo_part.h"
#include "index/set_part.h"
#include "isotherm/options.h"
#include "items/huge_block.h"
#include "items/memory_budget.h"

namespace isotherm {

class CacheIndex {
 public:
  struct alignas(64) Group {
    std::atomic<uint64_t> clock{0};
    std::atomic<int64_t> entries{0};

    uint64_t next_version() { return clock.fetch_add(1, std::memory_order_relaxed) + 1; }
  };
  using Visit = std::function<void(uint64_t hash, uint64_t word)>;
  using Done = std::function<void(uint64_t next)>;

  virtual ~CacheIndex();
  CacheIndex(const CacheIndex&) = delete;
  CacheIndex& operator=(const CacheIndex&) = delete;

  // For those who are in no hurry; see the kinds for the rest.
  virtual Found look(uint64_t hash) const = 0;

  // Visits the entries of the first part from `bound` on that has some, without a lock, and returns
  // where the next part begins; 0 after the last. Parts without entries are passed over, but not
  // very many at once.
  virtual uint64_t scan(uint64_t bound, const Visit& visit) const = 0;
  // The same under the lock of the part, so that no write of its keys runs: entries from `bound`
  // on. Then done(next), with what it returns, before the lock is let go.
  virtual uint64_t scan_locked(uint64_t bound, const Visit& visit, const Done& done) const = 0;
  // Takes the index apart, some parts a call: visit(hash, word) for every entry. True while there
  // is more. Only when no other thread can reach the index any more.
  virtual bool drain(uint32_t most_entries, const Visit& visit) = 0;

  virtual uint64_t room() const = 0;  // entries
  uint64_t bytes() const { return memory_.bytes(); }
  uint64_t count() const;
  uint64_t displaced() const { return displaced_.load(std::memory_order_relaxed); }
  // No smaller than any version given so far. Only when no update runs.
  uint64_t last_version() const;
  // Versions that are given from now on are larger than `version`.
  void begin_versions(uint64_t version);

 protected:
  CacheIndex(uint64_t bytes, uint64_t parts, MemoryBudget& budget, uint64_t first_version);

  Group& group_of(uint64_t part) const { return groups_[part >> group_shift_]; }
  char* memory() const { return memory_.data(); }

  const int group_shift_;
  std::atomic<uint64_t> displaced_{0};

 private:
  static constexpr uint64_t most_groups = 4096;
  static int shift_for(uint64_t parts);

  MemoryBudget& budget_;
  const HugeBlock memory_;
  const uint64_t group_count_;
  const std::unique_ptr<Group[]> groups_;
};

template <class Part>
class CacheIndexOf final : public CacheIndex {
 public:
  // Throws std::bad_alloc.
  CacheIndexOf(uint64_t parts, MemoryBudget& budget, uint64_t first_version)
      : CacheIndex(parts * sizeof(Part), parts, budget, first_version),
        parts_(reinterpret_cast<Part*>(memory())),
        count_(parts) {}

  ISOTHERM_INLINE CachePlace find(uint64_t hash) const {
    return read_part(HostUnit(), part(hash), hash);
  }
  // The entry was used at that moment.
  ISOTHERM_INLINE void touch(uint64_t hash, const CachePlace& place, uint64_t time) const {
    Part::touch(HostUnit(), part(hash), place, time, slack());
  }
  ISOTHERM_INLINE void prefetch(uint64_t hash) const { Part::prefetch(part(hash), hash); }
  // Where the part has arrived.
  ISOTHERM_INLINE void prefetch_entry(uint64_t hash) const {
    Part::prefetch_entry(part(hash), hash);
  }

  // As LineIndex::update, with `evict` as above. `time`: of the request; 0: it is none, and does
  // not count as a use of the entry.
  template <class Decide, class Evict, class Publish>
  ISOTHERM_INLINE Updated update(uint64_t hash, uint64_t time, Decide&& decide, Evict&& evict,
                                 Publish&& publish) {
    const uint64_t number = number_of(hash);
    Group& group = group_of(number);
    Part& its = parts_[number];
    const HostUnit unit;
    const PartLock lock(its);
    const CachePlace place = Part::find(unit, &its, hash);
    const Decision to = decide(place.found, place.word, group);
    if (place.found) {
      const Found previous{true, place.word};
      if (to.action == Action::keep) return {Change::none, previous, false};
      publish();
      if (to.action == Action::erase) {
        Part::erase(unit, its, place);
        // Behind what was told: a walk passes over groups that have none.
        group.entries.fetch_sub(1, std::memory_order_release);
        return {Change::erased, previous, false};
      }
      store_pair(&its.entry[place.entry], {hash, to.word});
      if (time != 0) Part::touch(unit, its, place, time, 0);
      return {Change::replaced, previous, false};
    }
    if (to.action != Action::store) return {};
    return insert(its, group, {hash, to.word}, time, evict, publish);
  }

  Found look(uint64_t hash) const override;
  uint64_t scan(uint64_t bound, const Visit& visit) const override;
  uint64_t scan_locked(uint64_t bound, const Visit& visit, const Done& done) const override;
  bool drain(uint32_t most_entries, const Visit& visit) override;
  uint64_t room() const override { return count_ * Part::entries; }

 private:
  class PartLock {
   public:
    ISOTHERM_INLINE explicit PartLock(Part& part) : part_(part) {
      lock_part(HostUnit(), &part_.version);
    }
    ISOTHERM_INLINE ~PartLock() { unlock_part(HostUnit(), &part_.version); }
    PartLock(const PartLock&) = delete;
    PartLock& operator=(const PartLock&) = delete;

   private:
    Part& part_;
  };
  // How many parts one step of a walk passes over.
  static constexpr uint64_t most_passed = 4096;

  ISOTHERM_INLINE uint64_t number_of(uint64_t hash) const { return part_of_hash(hash, count_); }
  ISOTHERM_INLINE Part& part(uint64_t hash) const { return parts_[number_of(hash)]; }
  // Stamps of lookups stand for so long: a share of the time in which all entries could be new.
  ISOTHERM_INLINE uint64_t slack() const { return count_ * Part::entries / 64; }

  template <class Evict, class Publish>
  Updated insert(Part& its, Group& group, Pair pair, uint64_t time, Evict&& evict,
                 Publish&& publish) {
    const HostUnit unit;
    CacheTally tally;
    CacheInsert plan = Part::plan_insert(unit, its, pair.first, time, tally);
    if (tally.moved != 0) displaced_.fetch_add(tally.moved, std::memory_order_relaxed);
    while (plan.evicts) {
      const Pair victim = load_pair(&its.entry[plan.entry]);
      if (evict(victim.first, victim.second, group)) break;
      if (!Part::plan_another(unit, its, pair.first, plan)) return {Change::no_line, {}, false};
    }
    publish();
    if (!plan.evicts) group.entries.fetch_add(1, std::memory_order_relaxed);
    Part::commit_insert(unit, its, plan, pair);
    return {Change::inserted, {}, plan.evicts};
  }

  uint64_t next_with_entries(uint64_t number) const;
  uint64_t bound_of(uint64_t number) const;

  Part* const parts_;
  const uint64_t count_;
  uint64_t drained_ = 0;  // parts
};

// Of kind `index`, which is not the line index, with room for as many entries as, with items of
// `item_bytes` each, fit into `bytes`; there is at least one part. Throws std::bad_alloc.
std::unique_ptr<CacheIndex> make_cache_index(IndexChoice index, uint64_t bytes, uint64_t item_bytes,
                                             MemoryBudget& budget, uint64_t first_version);

// Calls run(index) with the index as the kind that it is.
template <class Run>
decltype(auto) as_kind(IndexChoice kind, CacheIndex& index, Run&& run) {
  return kind == IndexChoice::cuckoo ? run(static_cast<CacheIndexOf<CuckooPart>&>(index))
                                     : run(static_cast<CacheIndexOf<SetPart>&>(index));
}

}  // namespace isotherm
