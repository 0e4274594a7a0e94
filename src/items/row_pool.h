// RowPool: memory of rows of one size, cut from whole pages, and which of it is free.
//
// A row that was replaced or erased is retired: it is free when no call can still read it
// (items/epoch.h). Pages are never given back before the end. The account has whole pages.
//
// At the cap the last rows are a reserve: only requests that give a row back for the one they take
// may use it, so present keys can always be written.
//
// Rows with heads (items/row_head.h) can be gone over, those that are free too. Their pages leave
// room in the account for an index of all rows, so a table that evicts stays below its cap.
//
// Threads. Any; one mutex, taken twice a part of a call.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "items/epoch.h"
#include "items/memory_budget.h"
#include "items/pages.h"
#include "items/retired_queue.h"
#include "items/row_head.h"

namespace isotherm {

class RowPool {
 public:
  // Rows kept for those who replace others, fewer where they are large.
  static constexpr uint64_t most_reserved = 16;
  // Of the index, about, for each row of a table that evicts.
  static constexpr uint64_t index_bytes = 36;

  RowPool(Pages& pages, MemoryBudget& budget, EpochDomain& epochs, uint64_t row_bytes,
          bool with_heads = false);
  RowPool(const RowPool&) = delete;
  RowPool& operator=(const RowPool&) = delete;

  // Fills the front of `rows` and returns how many: fewer only where memory ends, none where all
  // but the reserve is used. The caller is in no epoch.
  size_t take(std::span<char*> rows);
  // Takes rows from the reserve, waiting until there are some: at least one, unless the table never
  // had memory.
  size_t take_reserved(std::span<char*> rows);
  // Rows that nobody has seen, and rows that were unlinked.
  void give(std::span<char* const> unused, std::span<char* const> unlinked);

  // Whether there are rows to take, or will be when calls that may read them have ended.
  bool will_have_rows();
  // visit(row) of all rows with heads, and how many there are.
  template <class Visit>
  uint64_t each(Visit&& visit) {
    std::vector<char*> pages;
    {
      const std::lock_guard guard(mutex_);
      pages = with_heads_;
    }
    const uint64_t rows = Pages::page_bytes / stride_;
    for (char* row : pages) {
      for (uint64_t i = 0; i < rows; ++i, row += stride_) visit(row);
    }
    return pages.size() * rows;
  }

 private:
  bool fits_a_page() const;
  void reclaim();
  bool add_page();
  size_t pop(std::span<char*> rows, size_t keep);

  Pages& pages_;
  MemoryBudget& budget_;
  EpochDomain& epochs_;
  const uint64_t head_bytes_;
  const uint64_t stride_;
  const size_t reserve_;
  std::mutex mutex_;  // all below
  std::vector<char*> free_;
  RetiredQueue retired_;
  // What is left of the newest page.
  char* next_ = nullptr;
  uint64_t left_ = 0;
  bool any_page_ = false;
  std::vector<char*> with_heads_;  // the first row of each page
};

}  // namespace isotherm
