#include "device/database.h"

#include <new>

namespace isotherm {

LineIndex* Database::make_index(Pages& pages, MemoryBudget& budget, EpochDomain& epochs) {
  std::lock_guard guard(make_mutex_);
  LineIndex* index = index_.load(std::memory_order_acquire);
  if (index != nullptr) return index;
  try {
    index = new LineIndex(pages, budget, epochs, first_version_);
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
  expires.store(0, std::memory_order_relaxed);
  return index;
}

uint64_t Database::count() const {
  std::lock_guard guard(make_mutex_);
  const LineIndex* at = index();
  return at != nullptr ? at->count() : 0;
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
