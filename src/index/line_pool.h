// LinePool: overflow lines of one index, and the memory of its segments.
//
// Both come from the pages that items use (items/pages.h), cut into spans, and are told to the
// memory budget. A capped pool takes no more than fits the budget, and, unless that is very small,
// keeps room for one segment and a few lines more, which joins alone may take: an index that is
// full, and then emptied, gives segments back by joining them. A pool that is not capped takes what
// it needs whatever the budget says: the code that stores items refuses or evicts. Lines are handed
// out all zero; a line is cleared when it comes back.
//
// Lines come from the lowest span that has one, so when there are fewer the higher spans become
// free as a whole. One such span is kept, the others are given back.
//
// Threads. Any; a mutex guards the spans, taken once per chain that overflows. A thread that finds
// the mutex taken then takes some lines more, for itself and the threads that share its stock: when
// many threads insert, chains overflow so often that the threads would wait for each other here.
// Lines in stocks count as in use; a thread that finds no memory takes from them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "index/bucket.h"
#include "items/memory_budget.h"
#include "items/pages.h"

namespace isotherm {

enum class LineUse : uint8_t { grow, join };

class LinePool {
 public:
  static constexpr uint64_t span_bytes = 64 << 10;

  LinePool(Pages& pages, MemoryBudget& budget, bool capped)
      : pages_(pages), budget_(budget), capped_(capped), kept_(kept_for_joins()) {}
  ~LinePool();
  LinePool(const LinePool&) = delete;
  LinePool& operator=(const LinePool&) = delete;

  // A cleared line; null when no memory can be had.
  Bucket* take(LineUse use = LineUse::grow);
  void give(Bucket* line) { give({&line, 1}); }
  void give(std::span<Bucket* const> lines);
  // Appends `count` cleared lines to `lines`; returns false, and appends none, where there are not
  // as many.
  bool take(uint32_t count, std::vector<Bucket*>& lines, LineUse use = LineUse::grow);

  // The zeroed lines of a segment; null when no memory can be had.
  Bucket* take_segment(LineUse use = LineUse::grow);
  // Whether the budget has room for the two segments of a split.
  bool has_room_to_split() const;
  void give_segment(Bucket* lines);

 private:
  static constexpr uint32_t lines_per_span = span_bytes / sizeof(Bucket);
  static constexpr uint32_t stocks = 16;
  static constexpr uint32_t stock_lines = 64;

  struct Span {
    std::array<uint64_t, lines_per_span / 64> free;  // a bit a line
    uint32_t count;                                  // of free lines
  };

  struct alignas(64) Stock {
    std::mutex mutex;
    uint32_t count = 0;
    std::array<Bucket*, stock_lines> lines{};

    Bucket* take();
  };

  bool refill(LineUse use);
  uint32_t take_locked(uint32_t count, Bucket** lines);
  void give_locked(Bucket* line);
  Stock& own_stock();
  void fill(Stock& stock);
  Bucket* take_from_stocks();
  char* base() const { return static_cast<char*>(pages_.base()); }
  // `cost`: what the budget is told.
  uint64_t take_span(uint64_t bytes, uint64_t cost, LineUse use);
  bool claim(uint64_t cost, LineUse use);
  uint64_t kept_for_joins() const;

  Pages& pages_;
  MemoryBudget& budget_;
  const bool capped_;
  const uint64_t kept_;     // bytes of the budget, for joins
  std::mutex claim_mutex_;  // of the budget, from the look to the claim
  std::mutex mutex_;
  std::map<uint64_t, Span> spans_;  // by offset
  std::set<uint64_t> with_free_;    // offsets of spans with free lines
  uint64_t free_ = 0;               // lines, of all spans
  uint64_t whole_ = 0;              // spans without a line in use
  std::array<Stock, stocks> stocks_;
};

}  // namespace isotherm
