// DirectRows: the gets of a batch that memory lacks and the backing may answer directly
// (executor/backing.h), the rows behind them on their keys, and which of them ask for keys that
// should be in memory.
//
// A key that was asked for before, and no other key with the same place since, is hot: by a table
// of the marks of the last keys, which is so small that keys which come seldom are forgotten soon.
//
// Order. Rows that are left until later may see a newer value than those that are not; so once a
// row of a key is left, all behind it of the same key are. Keys are told apart by some bits of
// their hash, and one that is taken for another just waits.
//
// Without memory. What memory has the backing has, too, or knows that it was changed since. So
// where that takes less time none of a batch is looked up in memory, and hot keys are looked for in
// some batches only. Of batches of gets in a thread that waits for their replies the time is
// measured, by their size. For all others memory is skipped where many gets miss; one batch of some
// is looked up all the same, to see whether that is still so. Where reading is dear none of this is
// done: memory is asked, and all keys are hot.
//
// Threads. One.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "base/macros.h"
#include "executor/backing.h"
#include "executor/host/cheaper_way.h"
#include "isotherm/batch.h"

namespace isotherm {

class DirectRows {
 public:
  // Whether a backing may answer the row.
  static ISOTHERM_INLINE bool asks(const Batch::Columns& columns, Batch::Row row) {
    constexpr uint16_t plain =
        option::no_touch | option::any_type | option::no_value | option::part;
    return columns.op[row] == Op::get && (columns.options[row] & ~plain) == 0;
  }

  // Before a batch.
  void begin(bool reads_dearly) {
    dear_ = reads_dearly;
    rows_.clear();
    if (!left_.empty()) std::fill(left_.begin(), left_.end(), 0);
  }
  // Few rows are no work for a device that the thread waits for.
  bool pays(size_t rows) const { return rows >= (dear_ ? 1 : 16); }
  // Whether no get of the batch is to be looked up in memory, where reading is not dear.
  bool skips_memory() { return skips_ && ++skipped_ % look_again != 0; }
  // The same of one of so many gets, whose time will be noted.
  bool skips_memory(size_t gets) {
    const bool skips = way_of(gets).takes_second();
    if (skips) ++skipped_;
    return skips;
  }
  void note_time(size_t gets, bool skipped, int64_t ns) {
    way_of(gets).note(skipped, static_cast<double>(ns) / static_cast<double>(gets));
  }
  // Of a batch that was looked up there: how many of its rows were missed.
  void note_look(size_t looked, size_t missed) {
    looked_ += looked;
    missed_ += missed;
    if (looked_ < window) return;
    skips_ = missed_ > looked_ / 4 && rests_ == 0;
    if (rests_ != 0) --rests_;
    looked_ = missed_ = 0;
  }
  // Of one that was not: how many the backing left to memory.
  void note_skip(size_t asked, size_t unanswered) {
    if (unanswered <= asked / 8) return;
    skips_ = false;
    rests_ = look_again;
  }

  // Whether the row is to be left since one before it was.
  ISOTHERM_INLINE bool has(uint64_t hash) const {
    return !rows_.empty() && (left_[word(hash)] >> (hash & 63) & 1) != 0;
  }
  void add(Batch::Row row, uint64_t hash);
  // All rows of a batch of gets.
  void add_all(Batch::Row rows) {
    if (left_.empty()) left_.resize(words);
    rows_.resize(rows);
    std::iota(rows_.begin(), rows_.end(), Batch::Row{0});
  }
  const std::vector<Batch::Row>& rows() const { return rows_; }
  const std::vector<Backing::Hot>& hot() const { return hot_; }

  // Parts them: those that the backing is to answer stay, and the others go to `others`, in order.
  // Of batches that skip memory, hot ones are looked for in some only.
  void part(const Batch::Columns& columns, const Backing& backing, bool skips,
            std::vector<Batch::Row>& others) {
    hot_.clear();
    const bool looks = !skips || skipped_ % look_for_hot == 0;
    if (!looks && all_ask(columns)) return;
    if (seen_.empty() && !dear_) seen_.resize(places);
    std::fill(left_.begin(), left_.end(), 0);
    size_t kept = 0;
    for (const Batch::Row row : rows_) {
      const uint64_t hash = columns.hash[row];
      uint64_t& bits = left_[word(hash)];
      const uint64_t bit = uint64_t{1} << (hash & 63);
      if (!asks(columns, row) || (bits & bit) != 0) {
        bits |= bit;
        others.push_back(row);
        continue;
      }
      rows_[kept++] = row;
      if (looks && is_hot(hash)) {
        hot_.push_back({row, backing.see(columns.database[row], columns.key[row])});
      }
    }
    rows_.resize(kept);
  }

 private:
  static constexpr size_t window = 1 << 12;    // rows
  static constexpr uint32_t look_again = 64;   // batches
  static constexpr uint32_t look_for_hot = 8;  // batches
  static constexpr size_t words = 1 << 11;
  static constexpr size_t places = 1 << 16;
  static size_t word(uint64_t hash) { return hash >> 6 & (words - 1); }
  CheaperWay& way_of(size_t gets) {
    return ways_[std::min<size_t>(std::bit_width(gets), ways_.size() - 1)];
  }
  bool all_ask(const Batch::Columns& columns) const {
    return std::all_of(rows_.begin(), rows_.end(),
                       [&](Batch::Row row) { return asks(columns, row); });
  }
  bool is_hot(uint64_t hash) {
    if (dear_) return true;
    const auto mark = static_cast<uint16_t>(hash | 1);
    return std::exchange(seen_[hash >> 32 & (places - 1)], mark) == mark;
  }

  std::vector<Batch::Row> rows_;
  std::vector<Backing::Hot> hot_;
  std::vector<uint64_t> left_;       // a bit for some keys
  std::vector<uint16_t> seen_;       // marks of keys
  std::array<CheaperWay, 24> ways_;  // by the binary digits of the number of gets
  size_t looked_ = 0;                // rows, since the last decision
  size_t missed_ = 0;
  uint32_t skipped_ = 0;  // batches
  uint32_t rests_ = 0;    // windows for which none is
  bool skips_ = false;
  bool dear_ = false;
};

}  // namespace isotherm
