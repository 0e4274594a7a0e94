// DbRows: many gets, puts and erases of a DbTransaction (isotherm/db_transaction.h) for one call.
//
//   isotherm::DbRows rows;
//   const auto ada = rows.get("user:1");
//   rows.put("user:2", "Bob");
//   status = transaction->run(rows);        // as one call for each row, in their order
//   if (rows.found(ada)) … rows.value(ada)
//   rows.clear();                           // it may be filled again, and allocates little then
//
// Layout. A column for kinds, keys and values each. Keys and values stay where they are until `run`
// has returned; what was read is copied, and stays until `clear`.
//
// Threads. Belongs to one at a time. Limits. 2^32 - 1 rows. Sources. H-Rocks, section 6.4: the
// operations of a transaction are batched and processed together.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace isotherm {

class DbRows {
 public:
  using Row = uint32_t;

  // Each returns its row. They throw std::bad_alloc.
  Row get(std::string_view key) { return add(Kind::get, key, {}); }
  Row get_for_update(std::string_view key) { return add(Kind::get_for_update, key, {}); }
  Row put(std::string_view key, std::string_view value) { return add(Kind::put, key, value); }
  Row erase(std::string_view key) { return add(Kind::erase, key, {}); }
  Row size() const { return static_cast<Row>(keys_.size()); }
  void reserve(Row rows) {
    kinds_.reserve(rows);
    keys_.reserve(rows);
    values_.reserve(rows);
  }
  void clear() {
    kinds_.clear();
    keys_.clear();
    values_.clear();
    texts_ = {};
  }

  // Of gets, where `run` was ok.
  bool found(Row row) const { return values_[row].data() != nullptr; }
  std::string_view value(Row row) const { return values_[row]; }

 private:
  friend class DbTransaction;
  static constexpr uint32_t most_parts = 64;
  enum class Kind : uint8_t { get, get_for_update, put, erase };

  // What one thread has read.
  class Texts {
   public:
    // Not null, also where it is empty.
    std::string_view keep(std::string_view text) {
      constexpr size_t usual = 8 << 10;
      if (text.size() + 1 > left_) {
        left_ = std::max(usual, text.size() + 1);
        chunks_.push_back(std::make_unique_for_overwrite<char[]>(left_));
        next_ = chunks_.back().get();
      }
      if (!text.empty()) std::memcpy(next_, text.data(), text.size());
      left_ -= text.size() + 1;
      return {std::exchange(next_, next_ + text.size() + 1), text.size()};
    }

   private:
    std::vector<std::unique_ptr<char[]>> chunks_;
    char* next_ = nullptr;
    size_t left_ = 0;
  };

  Row add(Kind kind, std::string_view key, std::string_view value) {
    const size_t row = keys_.size();
    if (row == keys_.capacity()) reserve(static_cast<Row>(std::max<size_t>(64, 2 * row)));
    kinds_.push_back(kind);
    keys_.push_back(key);
    values_.push_back(value);
    return static_cast<Row>(row);
  }

  std::vector<Kind> kinds_;
  std::vector<std::string_view> keys_;
  std::vector<std::string_view> values_;  // of a get: what it has found
  std::array<Texts, most_parts> texts_;
};

}  // namespace isotherm
