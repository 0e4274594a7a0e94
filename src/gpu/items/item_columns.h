// Item columns: checks and cuts of the columns of a call to a table of device items.
//
// Rows are checked by the kernels: a call of a million rows is answered in two milliseconds, and to
// read its columns of offsets alone takes the host half of one. The host looks at what it copies,
// which is where parts begin and end, before it begins.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "gpu/items/item_part.h"
#include "isotherm/gpu/item_table.h"

namespace isotherm::item_columns {

inline bool has_writes(const gpu::ItemRequests& requests) {
  return requests.ops != nullptr || requests.op != TableOp::get;
}

// What can be checked without looking at the arrays.
inline void check_call(const gpu::ItemRequests& requests) {
  const gpu::ItemReplies& replies = requests.replies;
  if (!is_item_op(requests.op))
    throw std::invalid_argument(
        "tables of items take get, put, erase, put_if_absent, put_if_present, put_if_version "
        "and erase_if_version");
  if (requests.rows == 0) return;
  if (requests.keys.offsets == nullptr) throw std::invalid_argument("requests need keys");
  if (requests.ops == nullptr && puts_item(requests.op) && requests.values.offsets == nullptr) {
    throw std::invalid_argument("puts need values");
  }
  if (requests.ops == nullptr && names_version(requests.op) && requests.versions == nullptr) {
    throw std::invalid_argument("put_if_version and erase_if_version need versions");
  }
  const bool replies_columns =
      replies.versions != nullptr || replies.expiry != nullptr || replies.flags != nullptr;
  if (!has_writes(requests) && replies.found == nullptr && replies.offsets == nullptr &&
      !replies_columns) {
    throw std::invalid_argument("gets need a column for replies");
  }
  if (replies.offsets == nullptr && replies.capacity != 0) {
    throw std::invalid_argument("replies with a capacity need offsets");
  }
  if (replies.bytes == nullptr && replies.capacity != 0) {
    throw std::invalid_argument("replies with a capacity need bytes");
  }
}

// The bytes of rows `first` to `first + rows` of a column in host memory, which are copied as one,
// must be there and fit `room`.
inline void check_span(const char* name, const gpu::Bytes& column, uint64_t first, uint64_t rows,
                       uint64_t room) {
  const int64_t from = column.offsets[first];
  const int64_t upto = column.offsets[first + rows];
  if (from < 0 || upto < from || static_cast<uint64_t>(upto - from) > room) {
    throw std::invalid_argument(std::string("the offsets of ") + name +
                                " fall, or have a string that is longer than any the table takes");
  }
  if (column.bytes == nullptr && upto != from) {
    throw std::invalid_argument(std::string("the bytes of ") + name + " are missing");
  }
}

// How many of at most `rows` rows from `first` on have `room` bytes together; at least 1.
inline uint64_t fitting(const gpu::Bytes& column, uint64_t first, uint64_t rows, uint64_t room) {
  if (column.offsets == nullptr) return rows;
  const int64_t* offsets = column.offsets + first;
  constexpr uint64_t largest = std::numeric_limits<int64_t>::max();
  const auto most =
      static_cast<int64_t>(std::min(static_cast<uint64_t>(offsets[0]) + room, largest));
  if (offsets[rows] <= most) return rows;
  return std::max<uint64_t>(
      static_cast<uint64_t>(std::upper_bound(offsets, offsets + rows, most) - offsets) - 1, 1);
}

}  // namespace isotherm::item_columns
