// RowPool: memory of rows of one size, cut from whole pages, and which of it is free.
//
// A row that was replaced or erased is retired: it is free when no call can still read it
// (items/epoch.h). Pages are never given back before the end. The account has whole pages.
//
// At the cap the last rows are a reserve: only requests that give a row back for the one they take
// may use it, so present keys can always be written.
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

namespace isotherm {

class RowPool {
 public:
  // Rows kept for those who replace others, fewer where they are large.
  static constexpr uint64_t most_reserved = 16;

  RowPool(Pages& pages, MemoryBudget& budget, EpochDomain& epochs, uint64_t row_bytes);
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

 private:
  void reclaim();
  bool add_page();
  size_t pop(std::span<char*> rows, size_t keep);

  Pages& pages_;
  MemoryBudget& budget_;
  EpochDomain& epochs_;
  const uint64_t stride_;
  const size_t reserve_;
  std::mutex mutex_;  // all below
  std::vector<char*> free_;
  RetiredQueue retired_;
  // What is left of the newest page.
  char* next_ = nullptr;
  uint64_t left_ = 0;
  bool any_page_ = false;
};

}  // namespace isotherm
