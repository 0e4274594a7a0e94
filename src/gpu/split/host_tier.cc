#include "gpu/split/host_tier.h"

#include <new>

#include "base/tile.h"
#include "gpu/table/fixed_loops.h"

namespace isotherm {

void HostTier::find(const uint64_t* keys, size_t count, uint64_t* words, uint8_t* found) {
  fixed_loops().get(
      {.index = index_, .keys = keys, .rows = count, .values_out = words, .found_out = found});
}

bool HostTier::update(uint64_t hash, Decision decision) {
  try {
    const Updated updated =
        index_.update<TilePlain>(hash, [&](bool, uint64_t) -> Decision { return decision; });
    return updated.change != Change::no_line;
  } catch (const std::bad_alloc&) {  // for the index's own lists
    return false;
  }
}

void HostTier::change(uint64_t hash, Location root) {
  const bool present = root != location::none;
  const bool changed = update(hash, {present ? Action::store : Action::erase, root});
  if (!changed) full_.store(true, std::memory_order_relaxed);
}

void HostTier::settle(uint64_t changes) {
  growth_.add(changes);
  growth_.pay(index_.lines());
}

bool HostTier::put(std::span<const Entry> entries) {
  size_t done = 0;
  while (done < entries.size() && put(entries[done].hash, entries[done].word)) ++done;
  settle(done);
  if (done == entries.size()) return true;
  erase(entries.first(done));
  return false;
}

void HostTier::erase(std::span<const Entry> entries) {
  for (const Entry& entry : entries) erase(entry.hash);
}

uint64_t HostTier::read(uint64_t bound, uint64_t end, uint64_t wanted,
                        std::vector<Entry>& entries) const {
  const auto add = [&](uint64_t hash, uint64_t word) {
    if (hash >= bound && (end == 0 || hash < end)) entries.push_back({hash, word});
  };
  if (bound == 0) {
    if (const Found zero = index_.find<TilePlain>(0); zero.found) add(0, zero.word);
  }
  const size_t enough = entries.size() + wanted;
  uint64_t next = bound;
  do {
    next = index_.lines().scan(next, add);
    if (next == 0 || (end != 0 && next >= end)) return end;
  } while (entries.size() < enough);
  return next;
}

}  // namespace isotherm
