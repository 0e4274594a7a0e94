#include "device/host_tier.h"

#include <algorithm>
#include <cstddef>

namespace isotherm {

bool HostTier::change(uint64_t hash, Location root) {
  const Decision decision{root != location::none ? Action::store : Action::erase, root};
  const Updated updated =
      index_.update<TilePlain>(hash, [&](bool, uint64_t) -> Decision { return decision; });
  return updated.change != Change::no_line;
}

void HostTier::settle(uint64_t changes) {
  growth_.add(changes);
  growth_.pay(index_.lines());
}

uint64_t HostTier::read(uint64_t bound, uint64_t end, uint64_t wanted,
                        std::vector<Entry>& entries) const {
  if (bound == 0) {
    if (const Found zero = index_.find<TilePlain>(0); zero.found) entries.push_back({0, zero.word});
  }
  const size_t enough = entries.size() + wanted;
  uint64_t next = bound;
  do {
    // A line that is being joined shows its neighbour's entries, too.
    const uint64_t from = next;
    const size_t first = entries.size();
    next = index_.lines().scan(from, [&](uint64_t hash, uint64_t word) {
      entries.push_back({hash, word});
    });
    const bool all = next == 0 || (end != 0 && next >= end);
    const uint64_t to = all ? end : next;
    const auto begin = entries.begin() + static_cast<std::ptrdiff_t>(first);
    entries.erase(std::remove_if(begin, entries.end(),
                                 [&](const Entry& entry) {
                                   return entry.hash < from || (to != 0 && entry.hash >= to);
                                 }),
                  entries.end());
    if (all) return end;
  } while (entries.size() < enough);
  return next;
}

}  // namespace isotherm
