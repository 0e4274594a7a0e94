// RowCall: what is asked of a table of rows (gpu/rows/device_row_store.h, split_row_store.h): one
// operation for some keys, with pointers to device memory.
#pragma once

#include <cstdint>

#include "base/pair.h"

namespace isotherm {

enum class RowVerb : uint8_t {
  get,            // fills rows where keys are found; without `rows` it says which keys are there
  put,            // stores rows; of several for one key the last stays
  get_or_insert,  // fills rows of keys that are present, and inserts the others'; of several
                  // requests for an absent key the first inserts its row, and the others read that
  accumulate,     // adds floats to the rows of keys that are present
  erase,
};

struct RowCall {
  RowVerb verb = RowVerb::get;
  uint64_t n = 0;
  const uint64_t* keys = nullptr;  // [n]
  void* rows = nullptr;            // [n][row_bytes], aligned to 16 bytes
  uint8_t* found = nullptr;        // [n]; not of a get or a get_or_insert: null, not wanted

  bool brings_rows() const {
    return rows != nullptr && (verb == RowVerb::get || verb == RowVerb::get_or_insert);
  }
  bool sends_rows() const { return verb != RowVerb::get && verb != RowVerb::erase; }

  // `count` of its requests, from `first` on; rows have `row_bytes`.
  RowCall part(uint64_t first, uint64_t count, uint64_t row_bytes) const {
    RowCall part = *this;
    part.n = count;
    part.keys = keys + first;
    if (rows != nullptr) part.rows = static_cast<char*>(rows) + first * row_bytes;
    if (found != nullptr) part.found = found + first;
    return part;
  }
};

}  // namespace isotherm
