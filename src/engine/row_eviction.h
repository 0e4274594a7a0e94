// RowEviction: which rows of a RowTable go for others: those of the lowest scores.
//
// The k lowest are found by passes over the heads of all rows (items/row_head.h): one for the range
// of the scores, one for each 16 bits of it, from the top, that counts which digit how many rows
// have, and one that takes what lies below the bound found so, and of what lies on it as many as
// are missing. So at least a 64th of the rows goes at once. A row that is used or replaced
// meanwhile stays.
//
// Memory. 512 KiB while it runs. Threads. Any, which are in no epoch; one mutex.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/tile.h"
#include "index/fixed_index.h"
#include "items/epoch.h"
#include "items/row_head.h"
#include "items/row_pool.h"

namespace isotherm {

class RowEviction {
 public:
  RowEviction(FixedIndex& index, RowPool& pool, EpochDomain& epochs)
      : index_(index), pool_(pool), epochs_(epochs) {}
  RowEviction(const RowEviction&) = delete;
  RowEviction& operator=(const RowEviction&) = delete;

  uint64_t evictions() const { return evictions_.load(std::memory_order_relaxed); }

  // Lets `wanted` rows go or more, unless others that went, or were replaced, are free or about to
  // be; false where there are no rows. `slot` is the thread's.
  bool run(uint64_t wanted, EpochDomain::Slot& slot) {
    const std::lock_guard guard(mutex_);
    if (pool_.will_have_rows()) return true;
    const Lowest lowest = find(wanted);
    uint64_t left = lowest.of_bound;
    std::vector<char*> rows;
    const uint64_t all = pool_.each([&](char* row) {
      const uint64_t mark = RowHead::of(row).mark();
      if (!lowest.has(mark) || (lowest.on_bound(mark) && left == 0)) return;
      if (lowest.on_bound(mark)) --left;
      rows.push_back(row);
      if (rows.size() == batch) drop(rows, lowest, slot);
    });
    drop(rows, lowest, slot);
    return all != 0;
  }

 private:
  static constexpr size_t batch = 1024;

  // Marks from `least` to `least + bound`; of those on the bound `of_bound` at most.
  struct Lowest {
    bool has(uint64_t mark) const { return mark != 0 && mark >= least && mark - least <= bound; }
    bool on_bound(uint64_t mark) const { return mark - least == bound; }

    uint64_t least = 0;
    uint64_t bound = 0;
    uint64_t of_bound = 0;
  };

  Lowest find(uint64_t wanted) {
    constexpr uint32_t digit_bits = 16;
    uint64_t least = ~uint64_t{0}, most = 0;
    const uint64_t rows = pool_.each([&](char* row) {
      const uint64_t mark = RowHead::of(row).mark();
      if (mark != 0) least = std::min(least, mark);
      most = std::max(most, mark);
    });
    if (most == 0) return {~uint64_t{0}, 0, 0};
    Lowest found{least, 0, std::max(wanted, rows / 64)};
    const uint64_t range = most - least;
    const auto digits = static_cast<uint32_t>(std::bit_width(range) + digit_bits - 1) / digit_bits;
    std::vector<uint64_t> counts(size_t{1} << digit_bits);
    for (uint32_t shift = digits * digit_bits; shift != 0;) {
      shift -= digit_bits;
      std::fill(counts.begin(), counts.end(), 0);
      pool_.each([&](char* row) {
        const uint64_t mark = RowHead::of(row).mark(), above = mark - least;
        if (mark < least || above > range) return;
        if ((above ^ found.bound) >> shift >> digit_bits != 0) return;
        ++counts[(above >> shift) % counts.size()];
      });
      uint64_t digit = 0;
      for (; digit + 1 < counts.size() && counts[digit] < found.of_bound; ++digit) {
        found.of_bound -= counts[digit];
      }
      found.bound |= digit << shift;
    }
    return found;
  }

  void drop(std::vector<char*>& rows, const Lowest& lowest, EpochDomain::Slot& slot) {
    size_t gone = 0;
    {
      const EpochGuard guard(epochs_, slot);
      for (char* const row : rows) {
        RowHead& head = RowHead::of(row);
        if (!lowest.has(head.mark())) continue;
        auto decide = [&](bool found, uint64_t word) -> Decision {
          const bool its = found && word == reinterpret_cast<uint64_t>(row);
          return {its ? Action::erase : Action::keep, 0};
        };
        const Updated updated = index_.update<TilePlain>(index_.hash(head.key()), decide);
        if (updated.change != Change::erased) continue;
        head.drop();
        rows[gone++] = row;
      }
    }
    pool_.give({}, {rows.data(), gone});
    evictions_.fetch_add(gone, std::memory_order_relaxed);
    rows.clear();
  }

  FixedIndex& index_;
  RowPool& pool_;
  EpochDomain& epochs_;
  std::mutex mutex_;
  std::atomic<uint64_t> evictions_{0};
};

}  // namespace isotherm
