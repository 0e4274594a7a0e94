// RequestColumns: all columns of some requests and of their replies, one behind the other in one
// block of memory, of the host or of a device.
//
// Layout, for `rows` rows: keys, values, expected, values_out (8 bytes a row each), found, ops (1
// byte a row each).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/macros.h"
#include "isotherm/table_requests.h"

namespace isotherm {

struct RequestColumns {
  static constexpr uint64_t row_bytes = 4 * sizeof(uint64_t) + 2;

  char* memory = nullptr;  // rows × row_bytes
  uint64_t rows = 0;

  ISOTHERM_HOST_DEVICE uint64_t* keys() const { return words(0); }
  ISOTHERM_HOST_DEVICE uint64_t* values() const { return words(1); }
  ISOTHERM_HOST_DEVICE uint64_t* expected() const { return words(2); }
  ISOTHERM_HOST_DEVICE uint64_t* values_out() const { return words(3); }
  ISOTHERM_HOST_DEVICE uint8_t* found() const { return reinterpret_cast<uint8_t*>(words(4)); }
  ISOTHERM_HOST_DEVICE TableOp* ops() const { return reinterpret_cast<TableOp*>(found() + rows); }

  // `count` requests of the kind of `like`, from row `first` on: here are the columns that it has.
  TableRequests requests(const TableRequests& like, uint64_t first, uint64_t count) const {
    TableRequests mine = like;
    mine.rows = count;
    mine.keys = keys() + first;
    if (like.ops != nullptr) mine.ops = ops() + first;
    if (like.values != nullptr) mine.values = values() + first;
    if (like.expected != nullptr) mine.expected = expected() + first;
    if (like.values_out != nullptr) mine.values_out = values_out() + first;
    if (like.found != nullptr) mine.found = found() + first;
    return mine;
  }

 private:
  ISOTHERM_HOST_DEVICE uint64_t* words(uint64_t column) const {
    return reinterpret_cast<uint64_t*>(memory) + column * rows;
  }
};

// `count` rows of the requests, from row `first` on.
inline TableRequests rows_of(const TableRequests& requests, uint64_t first, uint64_t count) {
  const auto from = [&](auto* column) { return column != nullptr ? column + first : nullptr; };
  TableRequests some = requests;
  some.rows = count;
  some.ops = from(requests.ops);
  some.keys = from(requests.keys);
  some.values = from(requests.values);
  some.expected = from(requests.expected);
  some.values_out = from(requests.values_out);
  some.found = from(requests.found);
  return some;
}

// Calls work(to, from, bytes) for each column of requests that `from` has; `to` has them, too, in
// memory that may be written.
template <class Work>
void each_request_column(const TableRequests& to, const TableRequests& from, Work&& work) {
  const auto one = [&](const void* into, const void* column, uint64_t bytes) {
    if (column != nullptr) work(const_cast<void*>(into), column, bytes * from.rows);
  };
  one(to.keys, from.keys, sizeof *from.keys);
  one(to.values, from.values, sizeof *from.values);
  one(to.expected, from.expected, sizeof *from.expected);
  one(to.ops, from.ops, sizeof *from.ops);
}

// Copies the first `rows` replies to the caller, on the host; misses leave the caller's value
// untouched.
inline void copy_replies(const RequestColumns& from, uint64_t rows, const TableRequests& to) {
  std::copy_n(from.found(), rows, to.found);
  for (uint64_t i = 0; i < rows; ++i) {
    if (from.found()[i] == 1) to.values_out[i] = from.values_out()[i];
  }
}

}  // namespace isotherm
