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
// Threads. One.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/macros.h"
#include "executor/backing.h"
#include "isotherm/batch.h"

namespace isotherm {

class DirectRows {
 public:
  // Few rows are no work for a device.
  static constexpr size_t least = 16;

  struct Hot {
    Batch::Row row;
    Backing::Seen seen;  // before its key was asked for
  };

  void begin() {
    rows_.clear();
    if (!left_.empty()) std::fill(left_.begin(), left_.end(), 0);
  }
  // Whether the row is to be left since one before it was.
  ISOTHERM_INLINE bool has(uint64_t hash) const {
    return !rows_.empty() && (left_[word(hash)] >> (hash & 63) & 1) != 0;
  }
  void add(Batch::Row row, uint64_t hash);
  const std::vector<Batch::Row>& rows() const { return rows_; }
  const std::vector<Hot>& hot() const { return hot_; }

  // Parts them: those that the backing is to answer stay, and the others go to `others`, in order.
  void part(const Batch::Columns& columns, const Backing& backing,
            std::vector<Batch::Row>& others) {
    constexpr uint16_t plain = option::no_touch | option::any_type | option::no_value;
    hot_.clear();
    if (seen_.empty()) seen_.resize(places);
    std::fill(left_.begin(), left_.end(), 0);
    size_t kept = 0;
    for (const Batch::Row row : rows_) {
      const uint64_t hash = columns.hash[row];
      uint64_t& bits = left_[word(hash)];
      const uint64_t bit = uint64_t{1} << (hash & 63);
      const bool asks = columns.op[row] == Op::get && (columns.options[row] & ~plain) == 0;
      if (!asks || (bits & bit) != 0) {
        bits |= bit;
        others.push_back(row);
        continue;
      }
      rows_[kept++] = row;
      if (is_hot(hash)) hot_.push_back({row, backing.see(columns.database[row], columns.key[row])});
    }
    rows_.resize(kept);
  }

 private:
  static constexpr size_t words = 1 << 11;
  static constexpr size_t places = 1 << 16;
  static size_t word(uint64_t hash) { return hash >> 6 & (words - 1); }
  bool is_hot(uint64_t hash) {
    const auto mark = static_cast<uint16_t>(hash | 1);
    return std::exchange(seen_[hash >> 32 & (places - 1)], mark) == mark;
  }

  std::vector<Batch::Row> rows_;
  std::vector<Hot> hot_;
  std::vector<uint64_t> left_;  // a bit for some keys
  std::vector<uint16_t> seen_;  // marks of keys
};

}  // namespace isotherm
