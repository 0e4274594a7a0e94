#include "hot/fast_part.h"

#include <algorithm>

#include "base/broken.h"
#include "index/segment.h"

namespace isotherm {

template <int size>
FastPartOf<size>::FastPartOf(uint64_t bytes, HugeBlock::Pages largest, uint64_t seed, int hashes)
    : block_(std::max(bytes, place_bytes), largest),
      places_(std::clamp(bytes / place_bytes, uint64_t{1}, uint64_t{1} << 32)),
      first_(seed | 1),
      second_(hashes == 2 ? (seed * 0x9e3779b97f4a7c15ULL) | 1 : first_) {}

template <int size>
FastPartOf<size>::Change::Change(FastPartOf& part, uint64_t hash, uint64_t index)
    : part_(part), key_{hash, 0}, index_(index), places_(part.places_of(hash)) {
  part.lock(std::min(places_.first, places_.second));
  if (places_.first != places_.second) part.lock(std::max(places_.first, places_.second));
  entry_ = part.entry_of(places_.first, hash, index);
  if (entry_ == nullptr) entry_ = part.entry_of(places_.second, hash, index);
  if (entry_ != nullptr && !broken(Rule::taking)) store_pair(&entry_->slot, key_);
}

template <int size>
FastPartOf<size>::Change::~Change() {
  if (entry_ != nullptr && load_pair(&entry_->slot).second == 0) store_pair(&entry_->slot, {});
  if (places_.first != places_.second) part_.unlock(places_.second);
  part_.unlock(places_.first);
}

template <int size>
bool FastPartOf<size>::Change::put(uint64_t word) {
  if (entry_ == nullptr) {
    entry_ = part_.make_room(places_);
    if (entry_ == nullptr) return false;
    // The entry that was here is not to be seen with the new index.
    store_pair(&entry_->slot, {});
    entry_->index.store(index_, std::memory_order_relaxed);
    entry_->read.store(0, std::memory_order_relaxed);
  }
  store_pair(&entry_->slot, {key_.first, word});
  return true;
}

template <int size>
double FastPartOf<size>::load(uint64_t sample) const {
  const uint64_t entries = std::min(sample, places_) * size;
  uint64_t used = 0;
  for (uint64_t i = 0; i < entries; ++i) used += load_pair(&entries_at(0)[i].slot).first != 0;
  return static_cast<double>(used) / static_cast<double>(entries);
}

template <int size>
void FastPartOf<size>::lock(uint64_t place) {
  std::atomic<uint8_t>& lock = entries_at(place)->lock;
  if (lock.exchange(1, std::memory_order_acquire) != 0) wait_for_line(lock);
}

template <int size>
bool FastPartOf<size>::try_lock(uint64_t place) {
  return entries_at(place)->lock.exchange(1, std::memory_order_acquire) == 0;
}

template <int size>
FastEntry* FastPartOf<size>::entry_of(uint64_t place, uint64_t hash, uint64_t index) const {
  FastEntry* entries = entries_at(place);
  for (int i = 0; i < size; ++i) {
    if (load_pair(&entries[i].slot).first == hash &&
        entries[i].index.load(std::memory_order_relaxed) == index) {
      return &entries[i];
    }
  }
  return nullptr;
}

template <int size>
FastEntry* FastPartOf<size>::free_entry(uint64_t place) const {
  FastEntry* entries = entries_at(place);
  for (int i = 0; i < size; ++i) {
    if (load_pair(&entries[i].slot).first == 0) return &entries[i];
  }
  return nullptr;
}

template <int size>
FastEntry* FastPartOf<size>::make_room(const Places& held) {
  FastEntry* entry = free_entry(held.first);
  if (entry == nullptr) entry = free_entry(held.second);
  if (entry == nullptr) entry = move_one(held.first, held);
  if (entry == nullptr) entry = move_one(held.second, held);
  if (entry == nullptr) entry = take_unread(held.first);
  if (entry == nullptr && held.second != held.first) entry = take_unread(held.second);
  return entry;
}

// An entry of a full place that is free because its key went to its other place.
template <int size>
FastEntry* FastPartOf<size>::move_one(uint64_t from, const Places& held) {
  for (int i = 0; i < size; ++i) {
    FastEntry& entry = entries_at(from)[i];
    const Pair slot = load_pair(&entry.slot);
    const Places places = places_of(slot.first);
    const uint64_t to = places.first == from ? places.second : places.first;
    // The places that are held have no free entry.
    if (held.has(to) || !try_lock(to)) continue;
    FastEntry* free = free_entry(to);
    if (free != nullptr) {
      free->index.store(entry.index.load(std::memory_order_relaxed), std::memory_order_relaxed);
      free->read.store(entry.read.load(std::memory_order_relaxed), std::memory_order_relaxed);
      store_pair(&free->slot, slot);
      store_pair(&entry.slot, {});
    }
    unlock(to);
    if (free == nullptr) continue;
    moved_.fetch_add(1, std::memory_order_relaxed);
    return &entry;
  }
  return nullptr;
}

// An entry that nobody has read since a key was refused here.
template <int size>
FastEntry* FastPartOf<size>::take_unread(uint64_t place) {
  FastEntry* entries = entries_at(place);
  for (int i = 0; i < size; ++i) {
    if (entries[i].read.load(std::memory_order_relaxed) != 0) continue;
    replaced_.fetch_add(1, std::memory_order_relaxed);
    return &entries[i];
  }
  for (int i = 0; i < size; ++i) entries[i].read.store(0, std::memory_order_relaxed);
  return nullptr;
}

template class FastPartOf<1>;
template class FastPartOf<2>;
template class FastPartOf<4>;

}  // namespace isotherm
