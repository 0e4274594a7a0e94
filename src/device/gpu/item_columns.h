// Item columns: checks and cuts of the columns of a call to a table of device items.
//
// Host arrays are checked whole before anything changes. The loops have no branch, since a call of
// a million rows is answered in two milliseconds and each column of offsets is 8 MB.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "isotherm/device_item_table.h"

namespace isotherm::item_columns {

inline bool has_writes(const DeviceItemRequests& requests) {
  return requests.ops != nullptr || requests.op != DeviceOp::get;
}

// What can be checked without looking at the arrays.
inline void check_call(const DeviceItemRequests& requests) {
  const DeviceItemReplies& replies = requests.replies;
  if (requests.keys.offsets == nullptr) throw std::invalid_argument("requests without keys");
  if (requests.op != DeviceOp::get && requests.op != DeviceOp::put &&
      requests.op != DeviceOp::erase) {
    throw std::invalid_argument("items take get, put and erase only");
  }
  if (requests.ops == nullptr && requests.op == DeviceOp::put &&
      requests.values.offsets == nullptr) {
    throw std::invalid_argument("puts without values");
  }
  if (!has_writes(requests) && replies.found == nullptr && replies.offsets == nullptr) {
    throw std::invalid_argument("gets without replies");
  }
  if (replies.offsets == nullptr && replies.capacity != 0) {
    throw std::invalid_argument("room for values, but none for their offsets");
  }
  if (replies.bytes == nullptr && replies.capacity != 0) {
    throw std::invalid_argument("a capacity without bytes");
  }
}

// Rows `first` to `first + rows` of a column in host memory: offsets must not fall, and no length
// may be above `most`.
inline void check_column(const char* name, const DeviceBytes& column, uint64_t first, uint64_t rows,
                         uint64_t most) {
  const int64_t* offsets = column.offsets + first;
  // Bit 63 tells: of a first offset below 0, of lengths below 0, of lengths above the limit.
  uint64_t bad = static_cast<uint64_t>(offsets[0]);
  uint64_t before = static_cast<uint64_t>(offsets[0]);
  for (uint64_t i = 1; i <= rows; ++i) {
    const auto upto = static_cast<uint64_t>(offsets[i]);
    const uint64_t length = upto - before;
    bad |= upto | length | (most - length);
    before = upto;
  }
  if (bad >> 63 != 0) {
    throw std::invalid_argument(std::string("the offsets of ") + name +
                                " fall, or have a string of more than " + std::to_string(most) +
                                " bytes");
  }
  if (column.bytes == nullptr && offsets[rows] != offsets[0]) {
    throw std::invalid_argument(std::string("the bytes of ") + name + " are missing");
  }
}

// Whether any of a mix of operations is a put; throws for those that items do not take.
inline bool check_ops(const DeviceOp* ops, uint64_t rows) {
  uint8_t largest = 0;
  bool put = false;
  for (uint64_t i = 0; i < rows; ++i) {
    largest = std::max(largest, static_cast<uint8_t>(ops[i]));
    put |= ops[i] == DeviceOp::put;
  }
  static_assert(static_cast<uint8_t>(DeviceOp::erase) == 2);  // get and put are below
  if (largest > static_cast<uint8_t>(DeviceOp::erase)) {
    throw std::invalid_argument("items take get, put and erase only");
  }
  return put;
}

// Host arrays of a call with writes, all of it.
inline void check_host_arrays(const DeviceItemRequests& requests) {
  const bool puts = requests.ops != nullptr ? check_ops(requests.ops, requests.rows)
                                            : requests.op == DeviceOp::put;
  if (puts && requests.values.offsets == nullptr)
    throw std::invalid_argument("puts without values");
  check_column("keys", requests.keys, 0, requests.rows, max_item_key_bytes);
  if (requests.values.offsets != nullptr) {
    check_column("values", requests.values, 0, requests.rows, max_item_value_bytes);
  }
}

// How many of at most `rows` rows from `first` on have `room` bytes together; at least 1.
inline uint64_t fitting(const DeviceBytes& column, uint64_t first, uint64_t rows, uint64_t room) {
  if (column.offsets == nullptr) return rows;
  const int64_t* offsets = column.offsets + first;
  const int64_t most = offsets[0] + static_cast<int64_t>(room);
  if (offsets[rows] <= most) return rows;
  return std::max<uint64_t>(
      static_cast<uint64_t>(std::upper_bound(offsets, offsets + rows, most) - offsets) - 1, 1);
}

}  // namespace isotherm::item_columns
