// Score kernels: scores of rows, the rows of the lowest ones, and those of an export.
//
// Layout. Of each row of a table with scores there are the key that has it and its score. A free
// row has `free_score`, which no row of a key has; so has a new row until the part of the call that
// has taken it ends. A row with another score belongs to `keys[row]`, and the index says so, too.
//
// The k lowest scores are found digit by digit, from the top: how many of the rows whose higher
// digits are those chosen so far have which digit, and in which digit the k-th lies. What is left
// at the end is a score: all rows below it go, and of those that have it as many as are missing.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "gpu/kernel/each_request.h"
#include "gpu/rows/row_kernels.h"

namespace isotherm {

// What is known of the k lowest scores.
struct LowestScores {
  static constexpr uint32_t digits = 256;

  uint64_t score = 0;  // its digits so far
  uint64_t left = 0;   // rows that are wanted of those with these digits
  uint32_t taken = 0;
  uint32_t counts[digits] = {};
};

// After a part: gives rows their key and their score, or the time of their use. `which` says which
// requests are those that have written (gpu/rows/row_kernels.h); those of `out` have only read.
template <RowCopy which>
struct ScoreRowsKernel {
  RowsView view;
  RowWriters writers;
  const uint64_t* keys = nullptr;  // of the caller, as the next
  uint64_t* scores = nullptr;      // or null
  uint64_t now = 0;                // 0: scores are given

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    each_request(lane, writers.rows, [&](uint64_t i) {
      const uint32_t at = position_of(writers.positions, i);
      if (!writers.template wanted<which>(view, i, at)) return;
      const uint64_t row = writers.numbers[i];
      if (which == RowCopy::out) {
        if (now != 0) view.scores[row] = now;
        if (scores != nullptr) scores[at] = view.scores[row];
        return;
      }
      const uint64_t before = view.scores[row];
      uint64_t score = before == RowsView::free_score ? 0 : before;
      if (scores != nullptr)
        score = scores[at] < RowsView::free_score ? scores[at] : scores[at] - 1;
      view.keys[row] = keys[at];
      view.scores[row] = now != 0 ? now : score;
    });
  }
};

struct CountScoresKernel {
  static constexpr uint32_t threads = 256;
  struct Shared {
    uint32_t counts[LowestScores::digits];
  };

  RowsView view;
  LowestScores* lowest = nullptr;
  uint64_t rows = 0;
  uint32_t shift = 0;  // of the digit

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    static_assert(threads == LowestScores::digits);
    auto* shared = lane.template shared<Shared>();
    shared->counts[lane.thread()] = 0;
    lane.sync_block();
    const uint64_t above = shift == 56 ? 0 : ~uint64_t{0} << (shift + 8);
    const uint64_t wanted = lowest->score;
    each_request(lane, rows, [&](uint64_t row) {
      const uint64_t score = view.scores[row];
      if (score == RowsView::free_score || ((score ^ wanted) & above) != 0) return;
      Lane::atomic_add(&shared->counts[(score >> shift) & 255], uint32_t{1});
    });
    lane.sync_block();
    const uint32_t count = shared->counts[lane.thread()];
    if (count != 0) Lane::atomic_add(&lowest->counts[lane.thread()], count);
  }
};

// Chooses the digit, by one thread. Where there are fewer rows than are wanted it is the last one.
struct ChooseDigitKernel {
  LowestScores* lowest = nullptr;
  uint32_t shift = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    if (lane.block() != 0 || lane.thread() != 0) return;
    uint64_t left = lowest->left;
    uint32_t digit = 0;
    for (; digit < LowestScores::digits - 1 && lowest->counts[digit] < left; ++digit) {
      left -= lowest->counts[digit];
    }
    lowest->score |= uint64_t{digit} << shift;
    lowest->left = left;
    for (uint32_t& count : lowest->counts) count = 0;
  }
};

// The keys of the rows of the lowest scores; `found` has their number.
struct TakeLowestKernel {
  RowsView view;
  LowestScores* lowest = nullptr;
  uint64_t rows = 0;
  uint64_t* keys = nullptr;
  uint32_t* found = nullptr;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint64_t bound = lowest->score;
    const uint64_t of_bound = lowest->left;
    each_request(lane, rows, [&](uint64_t row) {
      const uint64_t score = view.scores[row];
      if (score > bound || score == RowsView::free_score) return;
      if (score == bound && Lane::atomic_add(&lowest->taken, uint32_t{1}) >= of_bound) return;
      keys[Lane::atomic_add(found, uint32_t{1})] = view.keys[row];
    });
  }
};

// The rows from `first` on whose scores lie between two bounds, for an export.
struct ExportKernel {
  RowsView view;
  uint64_t first = 0;
  uint64_t rows = 0;
  uint64_t score_from = 0;
  uint64_t score_to = 0;
  uint64_t* numbers = nullptr;
  uint8_t* found = nullptr;    // set to 1, for the kernel that copies rows
  uint64_t* keys = nullptr;    // or null
  uint64_t* scores = nullptr;  // or null
  uint32_t* count = nullptr;   // of all so far

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    each_request(lane, rows, [&](uint64_t i) {
      const uint64_t row = first + i;
      const uint64_t score = view.scores[row];
      if (score == RowsView::free_score || score < score_from || score > score_to) return;
      const uint32_t at = Lane::atomic_add(count, uint32_t{1});
      numbers[at] = row;
      found[at] = 1;
      if (keys != nullptr) keys[at] = view.keys[row];
      if (scores != nullptr) scores[at] = score;
    });
  }
};

}  // namespace isotherm
