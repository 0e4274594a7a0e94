// Item columns: checks and cuts of the columns of a call to a table of device items.
//
// Host arrays of calls with writes are checked whole before anything changes. The loops have no
// branch, since a call of a million rows is answered in two milliseconds and each of its columns of
// offsets is 8 MB. Gets change nothing, so their rows are checked by the kernels.
#pragma once

#include <emmintrin.h>

#include <algorithm>
#include <cstdint>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

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

namespace internal {

// Bit 63 is set if a length of the column is below 0 or above `most`.
inline uint64_t faults(const int64_t* offsets, uint64_t rows, uint64_t most) {
  uint64_t bad = 0;
  uint64_t i = 0;
  const auto load = [&](uint64_t at) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(offsets + at));
  };
  const __m128i limit = _mm_set1_epi64x(static_cast<int64_t>(most));
  __m128i bad_pair = _mm_setzero_si128();
  constexpr uint64_t step = 8;  // four pairs at a time: their loads overlap
  for (; i + step <= rows; i += step) {
    for (uint64_t at = i; at < i + step; at += 2) {
      const __m128i length = _mm_sub_epi64(load(at + 1), load(at));
      bad_pair = _mm_or_si128(bad_pair, _mm_or_si128(length, _mm_sub_epi64(limit, length)));
    }
  }
  alignas(16) uint64_t halves[2];
  _mm_store_si128(reinterpret_cast<__m128i*>(halves), bad_pair);
  bad |= halves[0] | halves[1];
  for (; i < rows; ++i) {
    const auto length = static_cast<uint64_t>(offsets[i + 1]) - static_cast<uint64_t>(offsets[i]);
    bad |= length | (most - length);
  }
  return bad;
}

}  // namespace internal

[[noreturn]] inline void refuse(const char* name, uint64_t most) {
  throw std::invalid_argument(std::string("the offsets of ") + name +
                              " fall, or have a string of more than " + std::to_string(most) +
                              " bytes");
}

// The bytes of rows `first` to `first + rows` of a column in host memory, which are copied as one,
// must be there and fit `room`.
inline void check_span(const char* name, const DeviceBytes& column, uint64_t first, uint64_t rows,
                       uint64_t room, uint64_t most) {
  const int64_t from = column.offsets[first];
  const int64_t upto = column.offsets[first + rows];
  if (from < 0 || upto < from || static_cast<uint64_t>(upto - from) > room) refuse(name, most);
  if (column.bytes == nullptr && upto != from) {
    throw std::invalid_argument(std::string("the bytes of ") + name + " are missing");
  }
}

// Offsets of these rows must not fall, and no length may be above `most`.
inline void check_column(const char* name, const DeviceBytes& column, uint64_t first, uint64_t rows,
                         uint64_t most) {
  check_span(name, column, first, rows, ~uint64_t{0}, most);
  if (internal::faults(column.offsets + first, rows, most) >> 63 != 0) refuse(name, most);
}

// Rows of the operations of a call: throws for those that items do not take, and for puts without
// values.
inline void check_ops(const DeviceItemRequests& requests, uint64_t first, uint64_t rows) {
  if (requests.ops == nullptr) return;
  uint8_t largest = 0;
  bool put = false;
  for (uint64_t i = first; i < first + rows; ++i) {
    largest = std::max(largest, static_cast<uint8_t>(requests.ops[i]));
    put |= requests.ops[i] == DeviceOp::put;
  }
  static_assert(static_cast<uint8_t>(DeviceOp::erase) == 2);  // get and put are below
  if (largest > static_cast<uint8_t>(DeviceOp::erase)) {
    throw std::invalid_argument("items take get, put and erase only");
  }
  if (put && requests.values.offsets == nullptr) throw std::invalid_argument("puts without values");
}

// Rows of a call with writes whose arrays are in host memory.
inline void check_rows(const DeviceItemRequests& requests, uint64_t first, uint64_t rows) {
  check_ops(requests, first, rows);
  check_column("keys", requests.keys, first, rows, max_item_key_bytes);
  if (requests.values.offsets == nullptr) return;
  check_column("values", requests.values, first, rows, max_item_value_bytes);
}

// The check of all rows of a call: the first rows at once, so that their copies may begin, the
// others by helping threads, or where there are none in finish().
class HostCheck {
 public:
  // Throws std::invalid_argument for the first `some` rows.
  HostCheck(const DeviceItemRequests& requests, uint64_t some) {
    some = std::min(some, requests.rows);
    const uint64_t others = requests.rows - some;
    const uint64_t each = std::max((others + helpers - 1) / helpers, least_rows);
    for (uint64_t first = some; first < requests.rows; first += each) {
      const uint64_t rows = std::min(each, requests.rows - first);
      tasks_.push_back(std::async(std::launch::async | std::launch::deferred,
                                  [&requests, first, rows] { check_rows(requests, first, rows); }));
    }
    check_rows(requests, 0, some);
  }

  // Throws std::invalid_argument for the others.
  void finish() {
    for (std::future<void>& task : tasks_) task.get();
    tasks_.clear();
  }

 private:
  static constexpr uint64_t helpers = 3;
  static constexpr uint64_t least_rows = 1 << 16;  // that are worth a thread

  std::vector<std::future<void>> tasks_;
};

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
