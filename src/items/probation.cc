#include "items/probation.h"

#include <algorithm>
#include <bit>

namespace isotherm {
namespace {

// Enough for a key that is read soon after it was stored to be still there.
constexpr uint32_t least_permille = 100;
constexpr uint32_t most_permille = 950;
constexpr uint32_t step_permille = 4;
constexpr uint64_t items_an_entry = 4;
constexpr uint64_t least_entries = 64;
constexpr uint64_t most_entries = uint64_t{1} << 24;
constexpr uint64_t bytes_an_entry = items_an_entry * 64;

uint16_t mark_of(uint64_t hash) { return static_cast<uint16_t>(hash | 1); }
uint64_t place_of(uint64_t hash, uint64_t entries) { return hash >> 16 & (entries - 1); }

}  // namespace

Probation::Probation(MemoryBudget& budget, uint64_t item_bytes)
    : budget_(budget),
      most_entries_(
          std::bit_floor(std::clamp(item_bytes / bytes_an_entry, least_entries, most_entries))),
      entries_(most_entries_),
      permille_(least_permille) {}

Probation::~Probation() { budget_.items.fetch_sub(static_cast<int64_t>(counted_ * sizeof(Entry))); }

void Probation::note_evicted(uint64_t hash, bool proven) {
  const uint64_t entries = in_use_.load(std::memory_order_relaxed);
  if (entries == 0) return;
  Entry& entry = entries_[place_of(hash, entries)];
  (proven ? entry.proven : entry.young).store(mark_of(hash), std::memory_order_relaxed);
}

bool Probation::comes_back(uint64_t hash) {
  const uint64_t entries = in_use_.load(std::memory_order_relaxed);
  if (entries == 0) return false;
  Entry& entry = entries_[place_of(hash, entries)];
  const auto take = [mark = mark_of(hash)](std::atomic<uint16_t>& place) {
    if (place.load(std::memory_order_relaxed) != mark) return false;
    place.store(0, std::memory_order_relaxed);
    return true;
  };
  const bool young = take(entry.young);
  const bool proven = take(entry.proven);
  const uint32_t before = permille();
  if (young && !proven) permille_ = std::min(before + step_permille, most_permille);
  if (proven && !young) permille_ = std::max(before - step_permille, least_permille);
  return young || proven;
}

bool Probation::exceeds(uint64_t bytes, uint64_t all) const {
  return bytes > all / 1000 * permille();
}

// Those that go out of use stay counted, since their memory is not given back.
void Probation::fit(uint64_t items) {
  const uint64_t wanted =
      std::bit_floor(std::clamp(items / items_an_entry, least_entries, most_entries_));
  const uint64_t entries = in_use_.load(std::memory_order_relaxed);
  if (wanted <= entries && wanted * 4 > entries) return;
  if (wanted > counted_) {
    budget_.items.fetch_add(static_cast<int64_t>((wanted - counted_) * sizeof(Entry)));
    counted_ = wanted;
  }
  in_use_.store(wanted, std::memory_order_relaxed);
}

}  // namespace isotherm
