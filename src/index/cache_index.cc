#include "index/cache_index.h"

#include <algorithm>

#include "base/raise_to.h"

namespace isotherm {
namespace {

// A huge page would be most of a small index.
HugeBlock::Pages pages_for(uint64_t bytes) {
  constexpr uint64_t small = 8 << 20;
  return bytes < small ? HugeBlock::Pages::normal : HugeBlock::Pages::transparent;
}

}  // namespace

CacheIndex::CacheIndex(uint64_t bytes, uint64_t parts, MemoryBudget& budget, uint64_t first_version)
    : group_shift_(shift_for(parts)),
      budget_(budget),
      memory_(bytes, pages_for(bytes)),
      group_count_(((parts - 1) >> group_shift_) + 1),
      groups_(new Group[group_count_]) {
  budget_.index.fetch_add(static_cast<int64_t>(memory_.bytes()));
  begin_versions(first_version);
}

CacheIndex::~CacheIndex() { budget_.index.fetch_sub(static_cast<int64_t>(memory_.bytes())); }

int CacheIndex::shift_for(uint64_t parts) {
  int shift = 0;
  while ((parts - 1) >> shift >= most_groups) ++shift;
  return shift;
}

uint64_t CacheIndex::count() const {
  int64_t entries = 0;
  for (uint64_t i = 0; i < group_count_; ++i) {
    entries += groups_[i].entries.load(std::memory_order_relaxed);
  }
  return static_cast<uint64_t>(std::max<int64_t>(entries, 0));
}

uint64_t CacheIndex::last_version() const {
  uint64_t last = 0;
  for (uint64_t i = 0; i < group_count_; ++i) {
    last = std::max(last, groups_[i].clock.load(std::memory_order_relaxed));
  }
  return last;
}

void CacheIndex::begin_versions(uint64_t version) {
  for (uint64_t i = 0; i < group_count_; ++i) {
    raise_to(groups_[i].clock, version, std::memory_order_relaxed);
  }
}

template <class Part>
Found CacheIndexOf<Part>::look(uint64_t hash) const {
  const CachePlace place = find(hash);
  return {place.found, place.word};
}

// The lowest hash of a part; 0 behind the last one.
template <class Part>
uint64_t CacheIndexOf<Part>::bound_of(uint64_t number) const {
  if (number >= count_) return 0;
  const uint64_t top = ((number << 32) + count_ - 1) / count_;
  return top << 32;
}

// The first part from `number` on in a group with entries, or behind the last one. A key that a
// group without entries gets meanwhile came after this look.
template <class Part>
uint64_t CacheIndexOf<Part>::next_with_entries(uint64_t number) const {
  while (number < count_ && group_of(number).entries.load(std::memory_order_acquire) <= 0) {
    number = ((number >> group_shift_) + 1) << group_shift_;
  }
  return std::min(number, count_);
}

template <class Part>
uint64_t CacheIndexOf<Part>::scan(uint64_t bound, const Visit& visit) const {
  Pair found[Part::entries];
  uint32_t entries = 0;
  uint64_t number = number_of(bound);
  for (uint64_t passed = 0; entries == 0 && passed < most_passed; ++passed, ++number) {
    number = next_with_entries(number);
    if (number == count_) return 0;
    const PartLock lock(parts_[number]);
    each_entry(parts_[number], [&](const Pair& pair) { found[entries++] = pair; });
  }
  for (uint32_t i = 0; i < entries; ++i) visit(found[i].first, found[i].second);
  return bound_of(number);
}

template <class Part>
uint64_t CacheIndexOf<Part>::scan_locked(uint64_t bound, const Visit& visit,
                                         const Done& done) const {
  const uint64_t number = next_with_entries(number_of(bound));
  const uint64_t next = number == count_ ? 0 : bound_of(number + 1);
  if (number == count_) {
    done(next);
    return next;
  }
  const PartLock lock(parts_[number]);
  each_entry(parts_[number], [&](const Pair& pair) {
    if (pair.first >= bound) visit(pair.first, pair.second);
  });
  done(next);
  return next;
}

template <class Part>
bool CacheIndexOf<Part>::drain(uint32_t most_entries, const Visit& visit) {
  const uint64_t most = std::max<uint64_t>(most_entries / Part::entries, 1);
  for (uint64_t parts = 0; parts < most; ++parts, ++drained_) {
    drained_ = next_with_entries(drained_);
    if (drained_ == count_) return false;
    each_entry(parts_[drained_], [&](const Pair& pair) { visit(pair.first, pair.second); });
  }
  return true;
}

template class CacheIndexOf<CuckooPart>;
template class CacheIndexOf<SetPart>;

namespace {

template <class Part>
std::unique_ptr<CacheIndex> make_of(uint64_t bytes, uint64_t item_bytes, MemoryBudget& budget,
                                    uint64_t first_version) {
  constexpr uint64_t most_parts = uint64_t{1} << 31;
  const uint64_t parts = bytes / (sizeof(Part) + Part::entries * item_bytes);
  return std::make_unique<CacheIndexOf<Part>>(std::clamp<uint64_t>(parts, 1, most_parts), budget,
                                              first_version);
}

}  // namespace

std::unique_ptr<CacheIndex> make_cache_index(IndexChoice index, uint64_t bytes, uint64_t item_bytes,
                                             MemoryBudget& budget, uint64_t first_version) {
  return index == IndexChoice::cuckoo
             ? make_of<CuckooPart>(bytes, item_bytes, budget, first_version)
             : make_of<SetPart>(bytes, item_bytes, budget, first_version);
}

}  // namespace isotherm
