// RowTable: u64 keys to rows of one size in host memory, such as embeddings or features.
//
//   isotherm::RowTable table({.row_bytes = 128 * sizeof(float)});
//   isotherm::RowHandle handle(table);              // one a thread
//   handle.put(keys, rows);                          // [n], [n][row_bytes]
//   handle.get(keys, rows_out, found_out);           // misses leave their row of rows_out
//   untouched
//
// Every key may be stored. The table grows by itself; a key takes its row, rounded up to 8 bytes,
// and the 27 to 29 bytes of a FixedTable's entry. Memory of erased rows is used again by this
// table.
//
// Scores and eviction, as those of gpu::RowTable. With `scores` each row has one, and takes 16
// bytes more: `given` by the put that writes it (0 before any was given), or the time of its last
// `use`, a count of parts of calls of up to 1024 requests. With `evict` a table that is at
// `maxmemory` lets rows of the lowest scores go for new keys, at least a 64th of them at once,
// whatever the scores of the new ones are. Of rows with equal scores any may go; those that a call
// has put may go before it ends, and a call that writes present keys may let others go, since it
// takes new rows before the old are free. Nothing is refused then, and the memory stays below the
// cap.
//
// Threads. As FixedTable: a handle a thread, at most 256; each key is linearizable, and requests of
// one call take effect in the order of the arrays. A reader sees each row as one writer left it,
// never a mixture, and takes no lock: a row that is written anew gets new memory, and the old one
// is used again when no call can still read it. Errors. std::invalid_argument for columns of
// unequal lengths or row_bytes out of range. Where memory ends, requests that need a new key are
// answered reply_retry; keys that are there can be written still. std::bad_alloc where `maxmemory`
// has no room for one row (up to 3 MiB). std::invalid_argument for `evict` without scores, or with
// less memory than it needs, and for columns of scores without any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "isotherm/row_scores.h"
#include "isotherm/table_requests.h"

namespace isotherm {

struct RowTableOptions {
  static constexpr uint64_t most_row_bytes = 1 << 20;
  static constexpr uint64_t least_evicting = uint64_t{16} << 20;

  uint64_t row_bytes = 0;  // 1 to most_row_bytes
  uint64_t maxmemory = 0;  // bytes that the table may take; 0: no cap
  // Rows to make room for in the index at once; more are taken in by growth.
  uint64_t expected_rows = 0;
  RowScores scores = RowScores::none;
  bool evict = false;  // needs scores; maxmemory then is least_evicting or more, or 0
  std::optional<uint64_t> hash_seed = {};
};

class RowTable {
 public:
  explicit RowTable(const RowTableOptions& options);
  ~RowTable();
  RowTable(const RowTable&) = delete;
  RowTable& operator=(const RowTable&) = delete;

  uint64_t size() const;
  uint64_t memory() const;  // bytes
  uint64_t row_bytes() const;
  uint64_t evictions() const;  // rows that went for others

 private:
  friend class RowHandle;
  struct State;
  std::unique_ptr<State> state_;
};

// Adds `delta` to `row`, which both have `bytes` bytes. It runs under a lock and must not throw.
using RowSum = void (*)(void* row, const void* delta, size_t bytes);

// Rows are arrays of T.
template <class T>
void add_elements(void* row, const void* delta, size_t bytes) {
  for (size_t at = 0; at + sizeof(T) <= bytes; at += sizeof(T)) {
    T sum, more;
    std::memcpy(&sum, static_cast<char*>(row) + at, sizeof(T));
    std::memcpy(&more, static_cast<const char*>(delta) + at, sizeof(T));
    sum = static_cast<T>(sum + more);
    std::memcpy(static_cast<char*>(row) + at, &sum, sizeof(T));
  }
}

// Requests of one operation as columns of n rows, with the meaning of TableRequests.
struct RowRequests {
  TableOp op = TableOp::get;
  std::span<const uint64_t> keys = {};
  const void* rows = nullptr;  // [n][row_bytes], of put, put_if_absent, compare_and_swap and add
  const void* expected = nullptr;  // [n][row_bytes], of compare_and_swap: compared byte by byte
  RowSum sum = nullptr;            // of add
  // The state of each key before, either or none; get: at least found. rows_out[i] is untouched
  // where found[i] is not 1; found[i] is 1, 0, or reply_retry, where memory was full and nothing
  // was done.
  void* rows_out = nullptr;
  uint8_t* found = nullptr;
  // [n], or null; of tables with scores. Of a get where those of the keys that are found go, of a
  // put those of its rows, as of gpu::RowRequests.
  uint64_t* scores = nullptr;
};

class RowHandle {
 public:
  explicit RowHandle(RowTable& table);
  ~RowHandle();
  RowHandle(const RowHandle&) = delete;
  RowHandle& operator=(const RowHandle&) = delete;

  struct Result {
    uint64_t found = 0;    // keys that were present before
    uint64_t refused = 0;  // requests for which there was no memory
  };
  Result run(const RowRequests& requests);

  // Returns how many were found.
  uint64_t get(std::span<const uint64_t> keys, void* rows, std::span<uint8_t> found);
  Result put(std::span<const uint64_t> keys, const void* rows);
  // Returns how many were present.
  uint64_t erase(std::span<const uint64_t> keys);

  // Visits whole lines of the index from `cursor` on, at least `count` rows while there are any;
  // returns the cursor to go on from, 0 at the end. `row` is valid during the visit, which may not
  // use this handle.
  uint64_t scan(uint64_t cursor, uint64_t count,
                const std::function<void(uint64_t key, const void* row)>& visit);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isotherm
