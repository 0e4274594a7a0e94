#include "index/segment.h"

#include <limits>

#include "base/short_lock.h"
#include "index/split_spread.h"

namespace isotherm {
namespace {

// Slots that a segment without overflow lines has.
constexpr double segment_slots = double{Bucket::slots} * segment_lines;
// The lowest threshold as a share of those slots. By the distribution of entries over lines this
// gives 27 to 29 bytes and 1.04 to 1.08 lines read per entry at any count; docs/layout.md has the
// table.
constexpr double lowest_load = 0.65;
constexpr int deepest = 24;

}  // namespace

uint32_t split_threshold(uint64_t prefix, int depth) {
  if (depth >= deepest) return std::numeric_limits<uint32_t>::max();
  return static_cast<uint32_t>(segment_slots * lowest_load * split_spread(prefix, depth));
}

uint32_t join_threshold(uint64_t prefix, int depth) {
  return depth == 0 ? 0 : split_threshold(prefix >> 1, depth - 1) / 5;
}

void wait_for_line(std::atomic<uint8_t>& lock) { ShortLock::wait(lock); }

}  // namespace isotherm
