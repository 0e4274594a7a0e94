// LinePool: overflow lines of one index, and the memory of its segments.
//
// Both come from the pages that items use (items/pages.h), cut into spans, and are told to the
// memory budget. A capped pool takes no more than fits the budget; one that is not leaves it to
// whoever stores items to refuse or evict. Lines are handed out all zero: a line that comes back is
// cleared then.
//
// Lines come from the lowest span that has one, so when there are fewer the higher spans become
// free as a whole. One such span is kept, the others are given back.
//
// Threads. Any; a mutex guards the spans. It is taken once per chain that overflows, which at the
// loads that growth keeps is once in some hundred inserts.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "index/bucket.h"
#include "items/memory_budget.h"
#include "items/pages.h"

namespace isotherm {

class LinePool {
 public:
  static constexpr uint64_t span_bytes = 64 << 10;

  LinePool(Pages& pages, MemoryBudget& budget, bool capped)
      : pages_(pages), budget_(budget), capped_(capped) {}
  ~LinePool();
  LinePool(const LinePool&) = delete;
  LinePool& operator=(const LinePool&) = delete;

  // A cleared line; null when no memory can be had.
  Bucket* take();
  void give(Bucket* line);
  // Appends `count` cleared lines to `lines`, or none and returns false.
  bool take(uint32_t count, std::vector<Bucket*>& lines);

  // The zeroed lines of a segment; null when no memory can be had.
  Bucket* take_segment();
  void give_segment(Bucket* lines);

 private:
  static constexpr uint32_t lines_per_span = span_bytes / sizeof(Bucket);

  struct Span {
    std::array<uint64_t, lines_per_span / 64> free;  // a bit a line
    uint32_t count;                                  // of free lines
  };

  bool refill();
  Bucket* take_locked();
  char* base() const { return static_cast<char*>(pages_.base()); }
  // `cost`: what the budget is told.
  uint64_t take_span(uint64_t bytes, uint64_t cost);

  Pages& pages_;
  MemoryBudget& budget_;
  const bool capped_;
  std::mutex mutex_;
  std::map<uint64_t, Span> spans_;  // by offset
  std::set<uint64_t> with_free_;    // offsets of spans with free lines
  uint64_t free_ = 0;               // lines, of all spans
  uint64_t whole_ = 0;              // spans without a line in use
};

}  // namespace isotherm
