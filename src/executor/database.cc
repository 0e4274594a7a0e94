#include "executor/database.h"

#include <algorithm>
#include <new>

namespace isotherm {

LineIndex* Database::make_index(Pages& pages, MemoryBudget& budget, EpochDomain& epochs,
                                uint64_t expected) {
  if (LineIndex* made = this->index(); made != nullptr) return made;
  std::lock_guard guard(make_mutex_);
  LineIndex* index = index_.load(std::memory_order_acquire);
  if (index != nullptr) return index;
  try {
    index = new LineIndex(pages, budget, epochs, first_version_, false, expected);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  index_.store(index, std::memory_order_release);
  return index;
}

std::unique_ptr<LineIndex> Database::detach() {
  std::lock_guard guard(make_mutex_);
  std::unique_ptr<LineIndex> index(index_.exchange(nullptr, std::memory_order_acq_rel));
  if (index != nullptr) first_version_ = index->last_version();
  ++first_version_;
  expires.store(0, std::memory_order_relaxed);
  return index;
}

void Database::begin_versions(uint64_t version) {
  std::lock_guard guard(make_mutex_);
  first_version_ = std::max(first_version_, version);
  if (LineIndex* const at = index()) at->begin_versions(version);
}

uint64_t Database::last_version() const {
  std::lock_guard guard(make_mutex_);
  const LineIndex* const at = index();
  return std::max(first_version_, at != nullptr ? at->last_version() : 0);
}

uint64_t Database::count() const {
  std::lock_guard guard(make_mutex_);
  const LineIndex* at = index();
  const int64_t elsewhere = std::max<int64_t>(entries_on_device.load(std::memory_order_relaxed), 0);
  return (at != nullptr ? at->count() : 0) + static_cast<uint64_t>(elsewhere);
}

uint64_t Database::splits() const {
  std::lock_guard guard(make_mutex_);
  const LineIndex* at = index();
  return at != nullptr ? at->splits() : 0;
}

uint64_t Database::joins() const {
  std::lock_guard guard(make_mutex_);
  const LineIndex* at = index();
  return at != nullptr ? at->joins() : 0;
}

}  // namespace isotherm
