// RowHead: what lies before a row of a table with scores: its key, and its score plus one, or 0
// where no key has the row.
//
// A row that a call has taken gets both before the index leads to it, so a head that names a score
// may be that of a row that is not there yet, or no more: who evicts asks the index whether the key
// has that row.
//
// Threads. Any; the words are atomics.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace isotherm {

struct RowHead {
  static RowHead& of(char* row) { return *reinterpret_cast<RowHead*>(row - sizeof(RowHead)); }
  static RowHead& of(uint64_t word) { return of(reinterpret_cast<char*>(word)); }

  // 2^64 - 1 counts as one less.
  void set_score(uint64_t given) { set(std::min(given, ~uint64_t{0} - 1) + 1); }
  uint64_t score() const { return std::max<uint64_t>(mark(), 1) - 1; }
  uint64_t mark() const { return mark_.load(std::memory_order_relaxed); }
  void drop() { set(0); }
  uint64_t key() const { return key_.load(std::memory_order_relaxed); }
  void set_key(uint64_t key) { key_.store(key, std::memory_order_relaxed); }

 private:
  // Mostly it is there: many read, and the line stays with all of them.
  void set(uint64_t mark) {
    if (mark_.load(std::memory_order_relaxed) != mark) {
      mark_.store(mark, std::memory_order_relaxed);
    }
  }

  std::atomic<uint64_t> key_;
  std::atomic<uint64_t> mark_;
};
static_assert(sizeof(RowHead) == 16);

}  // namespace isotherm
