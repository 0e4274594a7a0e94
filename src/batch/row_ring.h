// RowRing: rows of submissions in pinned memory, gathered, on the device, and being answered.
//
//        released          sent                appended
//   ... ----|---------------|---------------------|------> row numbers
//   free    | on the device | gathered            | free
//
// Columns are rings of `capacity` rows, a power of two, side by side in one block:
//   keys | values out | found                                         for reads
//   keys | values out | values | expected | found | operations        with operations
// A row is copied in once and answered from the place where the device left its reply. Batches are
// ranges of row numbers and are handed on without a copy. Rows of one submission that lie together
// are a segment, which knows where its replies go.
//
// Invariants. released <= sent <= appended <= released + capacity; the caller sees to it that there
// is room. A batch does not wrap around the end of the ring.
// Threads. One. Sources. Mega-KV, section 6.1 (buffers are handed on, rows are not copied).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "batch/fifo.h"
#include "batch/submission.h"

namespace isotherm {

// Rows of one submission that lie together in a ring.
struct RowSegment {
  gpu::Completion* owner = nullptr;
  uint64_t first = 0;  // row of the submission
  uint64_t begin = 0;  // row of the ring
  uint64_t rows = 0;
  int64_t arrived = 0;
};

struct RowRange {
  uint64_t begin = 0;
  uint64_t rows = 0;
  uint64_t segment = 0;  // of the first row
};

class RowRing {
 public:
  enum class Columns : uint8_t { reads, operations };

  static uint64_t bytes(uint64_t capacity, Columns columns) {
    return capacity * (columns == Columns::reads ? read_row_bytes : operation_row_bytes);
  }

  // In `memory`, pinned, of bytes(capacity, columns).
  RowRing(char* memory, uint64_t capacity, Columns columns) : mask_(capacity - 1) {
    keys_ = reinterpret_cast<uint64_t*>(memory);
    values_out_ = keys_ + capacity;
    uint64_t* last = values_out_ + capacity;
    if (columns == Columns::operations) {
      values_ = last;
      expected_ = values_ + capacity;
      last = expected_ + capacity;
    }
    found_ = reinterpret_cast<uint8_t*>(last);
    if (columns == Columns::operations) ops_ = reinterpret_cast<TableOp*>(found_ + capacity);
  }

  uint64_t appended() const { return appended_; }
  uint64_t sent() const { return sent_; }
  uint64_t released() const { return released_; }
  uint64_t waiting() const { return appended_ - sent_; }
  // When the oldest row that waits arrived; there is such a row.
  int64_t oldest_arrival() const { return segments_[unsent_segment_].arrived; }

  void append(gpu::Completion& owner, uint64_t first, uint64_t rows, int64_t now) {
    segments_.push({&owner, first, appended_, rows, now});
    const TableRequests& requests = Submission::requests(owner);
    while (rows != 0) {
      const uint64_t part = std::min(rows, until_wrap(appended_));
      copy_in(requests, first, part, appended_ & mask_);
      appended_ += part;
      first += part;
      rows -= part;
    }
  }

  // The next rows that wait, at most `most`.
  RowRange send(uint64_t most) {
    const RowRange range{sent_, std::min({most, waiting(), until_wrap(sent_)}), unsent_segment_};
    sent_ += range.rows;
    while (unsent_segment_ != segments_.end()) {
      const RowSegment& segment = segments_[unsent_segment_];
      if (segment.begin + segment.rows > sent_) break;
      ++unsent_segment_;
    }
    return range;
  }

  // The columns of a range that was sent.
  TableRequests columns(const RowRange& range) const {
    const uint64_t at = range.begin & mask_;
    TableRequests columns;
    columns.rows = range.rows;
    columns.keys = keys_ + at;
    columns.values_out = values_out_ + at;
    columns.found = found_ + at;
    if (ops_ == nullptr) return columns;
    const TableOp* ops = ops_ + at;
    columns.values = values_ + at;
    columns.expected = expected_ + at;
    columns.op = ops[0];
    const bool mixed = std::memcmp(ops, ops + 1, range.rows - 1) != 0;
    if (mixed) columns.ops = ops;
    return columns;
  }

  // Answers a range that has ended: `finished(owner)` is called for submissions of which these were
  // the last rows.
  template <class Finished>
  void answer(const RowRange& range, Finished&& finished) {
    const uint64_t end = range.begin + range.rows;
    uint64_t at = range.begin;
    for (uint64_t number = range.segment; at != end; ++number) {
      const RowSegment& segment = segments_[number];
      const uint64_t rows = std::min(segment.begin + segment.rows, end) - at;
      copy_out(*segment.owner, segment.first + (at - segment.begin), rows, at & mask_);
      at += rows;
      if (Submission::answered(*segment.owner, rows)) finished(*segment.owner);
    }
  }
  // All rows of the range are answered by `found`.
  void answer_all(const RowRange& range, uint8_t found) {
    std::memset(found_ + (range.begin & mask_), found, range.rows);
  }

  // The oldest range that was sent is no longer needed.
  void release(const RowRange& range) {
    released_ = range.begin + range.rows;
    while (!segments_.empty() && segments_.front().begin + segments_.front().rows <= released_) {
      segments_.pop();
    }
  }

  // Gives up all rows that were not sent: calls `ended(owner, rows)` for what is left of each
  // segment.
  template <class Ended>
  void give_up(Ended&& ended) {
    for (uint64_t number = unsent_segment_; number != segments_.end(); ++number) {
      const RowSegment& segment = segments_[number];
      const uint64_t begin = std::max(segment.begin, sent_);
      ended(*segment.owner, segment.begin + segment.rows - begin);
    }
    while (!segments_.empty()) segments_.pop();
    unsent_segment_ = segments_.end();
    sent_ = released_ = appended_;
  }
  // Calls it for the rows of a range on the device.
  template <class Ended>
  void give_up(const RowRange& range, Ended&& ended) {
    const uint64_t end = range.begin + range.rows;
    uint64_t at = range.begin;
    for (uint64_t number = range.segment; at != end; ++number) {
      const RowSegment& segment = segments_[number];
      const uint64_t rows = std::min(segment.begin + segment.rows, end) - at;
      at += rows;
      ended(*segment.owner, rows);
    }
  }

 private:
  static constexpr uint64_t read_row_bytes = 2 * sizeof(uint64_t) + 1;
  static constexpr uint64_t operation_row_bytes = 4 * sizeof(uint64_t) + 2;

  uint64_t until_wrap(uint64_t row) const { return mask_ + 1 - (row & mask_); }

  void copy_in(const TableRequests& requests, uint64_t first, uint64_t rows, uint64_t at) {
    std::memcpy(keys_ + at, requests.keys + first, rows * sizeof(uint64_t));
    if (ops_ == nullptr) return;
    if (requests.ops != nullptr) {
      std::memcpy(ops_ + at, requests.ops + first, rows);
    } else {
      std::memset(ops_ + at, static_cast<int>(requests.op), rows);
    }
    copy_or_clear(values_ + at, requests.values, first, rows);
    copy_or_clear(expected_ + at, requests.expected, first, rows);
  }
  static void copy_or_clear(uint64_t* to, const uint64_t* column, uint64_t first, uint64_t rows) {
    if (column != nullptr) {
      std::memcpy(to, column + first, rows * sizeof(uint64_t));
    } else {
      std::memset(to, 0, rows * sizeof(uint64_t));
    }
  }

  // Copies the values of hits only: a miss leaves the caller's value untouched.
  void copy_out(const gpu::Completion& owner, uint64_t first, uint64_t rows, uint64_t at) const {
    const TableRequests& requests = Submission::requests(owner);
    if (requests.found == nullptr) return;
    const uint8_t* found = found_ + at;
    const uint64_t* values = values_out_ + at;
    uint64_t* to = requests.values_out + first;
    std::memcpy(requests.found + first, found, rows);
    constexpr uint64_t together = 8;
    constexpr uint64_t all_found = 0x0101010101010101;
    uint64_t row = 0;
    for (; row + together <= rows; row += together) {
      uint64_t eight = 0;
      std::memcpy(&eight, found + row, together);
      if (eight == all_found) {
        std::memcpy(to + row, values + row, together * sizeof(uint64_t));
      } else {
        copy_hits(found + row, values + row, to + row, together);
      }
    }
    copy_hits(found + row, values + row, to + row, rows - row);
  }
  static void copy_hits(const uint8_t* found, const uint64_t* values, uint64_t* to, uint64_t rows) {
    for (uint64_t row = 0; row < rows; ++row) {
      if (found[row] == 1) to[row] = values[row];
    }
  }

  const uint64_t mask_;
  uint64_t* keys_ = nullptr;
  uint64_t* values_out_ = nullptr;
  uint64_t* values_ = nullptr;
  uint64_t* expected_ = nullptr;
  uint8_t* found_ = nullptr;
  TableOp* ops_ = nullptr;
  Fifo<RowSegment> segments_;
  uint64_t unsent_segment_ = 0;  // of the oldest row that waits
  uint64_t appended_ = 0;
  uint64_t sent_ = 0;
  uint64_t released_ = 0;
};

}  // namespace isotherm
