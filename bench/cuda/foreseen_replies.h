// ForeseenReplies: what a client of a queue must be answered. No other client writes to its keys,
// and its requests on a key take effect in the order in which it submits them; so each reply is
// known when the request is submitted.
//
// A client's keys are different, and a submission has some that stand behind one another.
// Threads. One.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cuda/ranks.h"
#include "isotherm/table_requests.h"

namespace isotherm::bench {

class ForeseenReplies {
 public:
  static constexpr uint8_t unanswered = 77;

  // Columns of one submission: what is put, and what the replies must be.
  struct Columns {
    explicit Columns(uint64_t rows) : put(rows), expected(rows), expected_found(rows) {}

    std::vector<uint64_t> put;
    std::vector<uint64_t> expected;
    std::vector<uint8_t> expected_found;
  };

  // All keys are present, with three times the key as the value.
  explicit ForeseenReplies(std::vector<uint64_t> keys)
      : keys_(std::move(keys)), present_(keys_.size(), 1) {
    for (const uint64_t key : keys_) stored_.push_back(key * 3);
  }

  const std::vector<uint64_t>& keys() const { return keys_; }

  // Draws what `rows` keys from `at` on are to get, and says what the replies will be.
  void foresee(TableOp op, uint64_t at, uint64_t rows, Columns& columns) {
    const auto from = static_cast<int64_t>(at);
    std::copy_n(stored_.begin() + from, rows, columns.expected.begin());
    std::copy_n(present_.begin() + from, rows, columns.expected_found.begin());
    if (op != TableOp::put) return;
    for (uint64_t row = 0; row < rows; ++row) columns.put[row] = scramble(++drawn_);
  }
  // The submission was taken.
  void apply(TableOp op, uint64_t at, uint64_t rows, const Columns& columns) {
    const auto from = static_cast<int64_t>(at);
    if (op == TableOp::put) std::copy_n(columns.put.begin(), rows, stored_.begin() + from);
    if (op == TableOp::get) return;
    std::fill_n(present_.begin() + from, rows, op == TableOp::put ? uint8_t{1} : uint8_t{0});
  }

  // Rows whose reply is another; `found` was all `unanswered` before.
  static uint64_t wrong(const Columns& columns, uint64_t rows, const uint64_t* values,
                        const uint8_t* found) {
    uint64_t wrong = 0;
    for (uint64_t row = 0; row < rows; ++row) {
      const bool right = found[row] == columns.expected_found[row] &&
                         (found[row] == 0 || values[row] == columns.expected[row]);
      wrong += right ? 0 : 1;
    }
    return wrong;
  }

 private:
  const std::vector<uint64_t> keys_;
  std::vector<uint64_t> stored_;
  std::vector<uint8_t> present_;
  uint64_t drawn_ = 0;
};

}  // namespace isotherm::bench
