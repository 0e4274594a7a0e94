#include "command/lcs.h"

#include <algorithm>
#include <bit>

namespace isotherm {
namespace {

// Rows of bits: a column for each byte of the second text, a row for each of the first.
class Rows {
 public:
  Rows(std::string_view first, std::string_view second) : words_((second.size() + 63) / 64) {
    uint64_t different = 0;
    for (const char byte : first) {
      uint16_t& number = numbers_[static_cast<uint8_t>(byte)];
      if (number == 0) number = static_cast<uint16_t>(++different);
    }
    matches_.resize(different * words_);
    for (uint64_t j = 0; j < second.size(); ++j) {
      if (numbers_[static_cast<uint8_t>(second[j])] == 0) continue;
      matches_of(second[j])[j / 64] |= uint64_t{1} << (j % 64);
    }
  }

  uint64_t words() const { return words_; }

  // The row behind `above` for the byte: bit j is set where the length grows at column j. `above`
  // and `row` may be the same.
  void next(char byte, const uint64_t* above, uint64_t* row) {
    const uint64_t* match = matches_of(byte);
    uint64_t carry = 0;
    for (uint64_t w = 0; w < words_; ++w) {
      // In the usual form a clear bit says that the length grows.
      const uint64_t flat = ~above[w];
      const uint64_t hit = flat & match[w];
      uint64_t sum = 0;
      const bool over = __builtin_add_overflow(flat, hit, &sum);
      const bool over_again = __builtin_add_overflow(sum, carry, &sum);
      carry = over || over_again ? 1 : 0;
      row[w] = ~(sum | (flat & ~match[w]));
    }
  }

 private:
  uint64_t* matches_of(char byte) {
    return matches_.data() + (numbers_[static_cast<uint8_t>(byte)] - 1u) * words_;
  }

  const uint64_t words_;
  uint16_t numbers_[256] = {};     // from 1, of the bytes that the first text has
  std::vector<uint64_t> matches_;  // for each of these, where the second text has it
};

// `columns` is how many bits of the row count.
uint64_t count(const uint64_t* row, uint64_t columns) {
  uint64_t sum = 0;
  for (uint64_t w = 0; w < columns / 64; ++w) sum += static_cast<uint64_t>(std::popcount(row[w]));
  if (columns % 64 == 0) return sum;
  const uint64_t last = row[columns / 64] & ((uint64_t{1} << (columns % 64)) - 1);
  return sum + static_cast<uint64_t>(std::popcount(last));
}

}  // namespace

uint64_t lcs_length(std::string_view first, std::string_view second) {
  Rows rows(first, second);
  std::vector<uint64_t> row(rows.words());
  for (const char byte : first) rows.next(byte, row.data(), row.data());
  return count(row.data(), second.size());
}

std::vector<CommonPiece> lcs_pieces(std::string_view first, std::string_view second) {
  Rows rows(first, second);
  const uint64_t words = rows.words();
  std::vector<uint64_t> table((first.size() + 1) * words);
  for (uint64_t i = 0; i < first.size(); ++i) {
    rows.next(first[i], table.data() + i * words, table.data() + (i + 1) * words);
  }
  std::vector<CommonPiece> pieces;
  bool joins = false;  // the step before matched
  for (uint64_t i = first.size(), j = second.size(); i > 0 && j > 0;) {
    if (first[i - 1] == second[j - 1]) {
      --i;
      --j;
      if (!joins) pieces.push_back({i, j, 0});
      pieces.back() = {i, j, pieces.back().size + 1};
      joins = true;
      continue;
    }
    joins = false;
    const bool grows = (table[i * words + (j - 1) / 64] >> ((j - 1) % 64) & 1) != 0;
    grows ? --i : --j;
  }
  return pieces;
}

std::string join_pieces(std::string_view first, const std::vector<CommonPiece>& pieces) {
  std::string joined;
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    joined += first.substr(piece->first, piece->size);
  }
  return joined;
}

}  // namespace isotherm
