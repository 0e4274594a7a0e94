// GroupPhases: which rows of a batch with groups can run at the same time.
//
//   COPY a b        get a │ guard │ put b          phase 0: get a, get c     then both guards
//   RENAME c d      get c │ guard │ put d │ …      phase 1: put b, put d     then …
// On a device each run of rows costs a round, so groups on different keys share them. A group that
// has a key of an earlier one begins in the phase in which that ends; and so do views, and rows in
// no group, which have one phase.
//
// Invariants. Rows of one key are in the order of the batch: of their phases, and of the rows
// within a phase. A guard is called behind its phase, which has the rows of its group before it.
// Limits. Guards that look at all rows, and rows that flush, stand between two plans.
//
// Threads. One.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "isotherm/batch.h"

namespace isotherm {

class GroupPhases {
 public:
  // Of guards in their order, those from the first on that each look at their own group alone.
  static std::span<const Batch::Guard> together(const Batch& batch,
                                                std::span<const Batch::Guard> guards);
  // Whether these are of more than one group.
  static bool shares(const Batch& batch, std::span<const Batch::Guard> guards);

  // For the rows from `first` to before `end`, which have hashes, and all guards among them.
  void plan(const Batch& batch, Batch::Row first, Batch::Row end,
            std::span<const Batch::Guard> guards);
  // One phase behind the other, from the first on.
  bool done() const { return phase_ == count_; }
  void next() { ++phase_; }
  void clear() { phase_ = count_ = 0; }
  // Whether the row runs in this phase, and whether a guard, by its place among those that were
  // given, is called behind it.
  bool has(Batch::Row row) const { return rows_[row - first_] == phase_; }
  bool calls(size_t guard) const { return guards_[guard] == phase_; }

 private:
  void add(const Batch::Columns& columns, Batch::Span unit, std::span<const Batch::Guard> guards);

  Batch::Row first_ = 0;
  uint32_t phase_ = 0;
  uint32_t count_ = 0;
  std::vector<uint32_t> rows_;
  std::vector<uint32_t> guards_;
  std::unordered_map<uint64_t, uint32_t> keys_;  // the first phase for a later row of the key
};

}  // namespace isotherm
