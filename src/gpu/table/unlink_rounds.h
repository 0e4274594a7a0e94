// UnlinkRounds: which segments are gone over for overflow lines that their chains can do without
// (gpu/table/unlink_kernel.h), and when.
//
// A hand goes round all segments, before each part that is short of lines over a stretch of so many
// home lines as its rows pay for; over a few such, if it is still short. Where lines come and go at
// a constant number of entries, it so meets each chain again before much of it has changed. After a
// whole round that gave nothing back it rests, until entries were erased, or as many rows have come
// as there are home lines.
//
// Threads. One at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/kernel/settle_kernels.h"

namespace isotherm {

class UnlinkRounds {
 public:
  static constexpr uint64_t lines_per_row = 4;
  static constexpr uint64_t least_lines = 4096;

  // So many segments from `first` on; behind the last comes the first again.
  struct Stretch {
    uint64_t first = 0;
    uint64_t count = 0;
  };

  // What to go over before a part of `rows` rows, of `segments` segments that have `lines_each`
  // home lines. Nothing while it rests.
  Stretch begin(uint64_t segments, uint64_t lines_each, uint64_t rows, const TableTotals& totals) {
    if (rests_ && !wakes(segments * lines_each, rows, totals)) return {};
    rests_ = false;
    if (left_ == 0) {
      left_ = segments;
      gave_ = false;
    }
    const uint64_t lines = std::max(rows * lines_per_row, least_lines);
    const Stretch stretch{hand_ % segments,
                          std::min((lines + lines_each - 1) / lines_each, segments)};
    hand_ = (stretch.first + stretch.count) % segments;
    left_ -= std::min(left_, stretch.count);
    linked_ = totals.linked_lines;
    return stretch;
  }

  // After each stretch; `totals`: once it was gone over.
  void end(const TableTotals& totals) {
    gave_ |= totals.linked_lines < linked_;
    rests_ = left_ == 0 && !gave_;
    rows_ = 0;
    entries_ = totals.entries;
  }

  // Entries were erased: goes on at once.
  void wake() { rests_ = false; }

 private:
  // A line needs 7 entries erased, if they were side by side.
  static constexpr uint64_t lines_per_erased = 8;

  bool wakes(uint64_t lines, uint64_t rows, const TableTotals& totals) {
    rows_ += rows;
    return rows_ >= lines || totals.entries + lines / lines_per_erased < entries_;
  }

  uint64_t hand_ = 0;
  uint64_t left_ = 0;    // segments of this round; 0: the next begins
  uint64_t linked_ = 0;  // lines, before the last stretch
  bool gave_ = false;    // this round gave something back
  bool rests_ = false;
  uint64_t rows_ = 0;     // since it rests
  uint64_t entries_ = 0;  // when it began to
};

}  // namespace isotherm
