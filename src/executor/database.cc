#include "executor/database.h"

#include <algorithm>
#include <new>

#include "base/tile.h"

namespace isotherm {

Database::~Database() { detach(); }

uint64_t Database::root_of(uint64_t hash) const {
  if (const LineIndex* at = index(); at != nullptr) return at->find<TilePlain>(hash).word;
  const CacheIndex* at = cache();
  return at != nullptr ? at->look(hash).word : 0;
}

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

DetachedIndex Database::detach() {
  std::lock_guard guard(make_mutex_);
  // Before it is detached, since this may find no memory.
  if (const LineIndex* const lines = index()) first_version_ = lines->last_version();
  if (const CacheIndex* const its = cache()) first_version_ = its->last_version();
  ++first_version_;
  DetachedIndex detached{
      std::unique_ptr<LineIndex>(index_.exchange(nullptr, std::memory_order_acq_rel)),
      std::unique_ptr<CacheIndex>(cache_.exchange(nullptr, std::memory_order_acq_rel))};
  expires.store(0, std::memory_order_relaxed);
  return detached;
}

void Database::begin_versions(uint64_t version) {
  std::lock_guard guard(make_mutex_);
  first_version_ = std::max(first_version_, version);
  if (LineIndex* const at = index()) at->begin_versions(version);
  if (CacheIndex* const at = cache()) at->begin_versions(version);
}

uint64_t Database::last_version() const {
  std::lock_guard guard(make_mutex_);
  const LineIndex* const at = index();
  const CacheIndex* const other = cache();
  return std::max({first_version_, at != nullptr ? at->last_version() : 0,
                   other != nullptr ? other->last_version() : 0});
}

uint64_t Database::count() const {
  std::lock_guard guard(make_mutex_);
  if (const CacheIndex* const at = cache(); at != nullptr) return at->count();
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

Database::CacheUse Database::cache_use() const {
  std::lock_guard guard(make_mutex_);
  const CacheIndex* const at = cache();
  if (at == nullptr) return {};
  return {at->bytes(), at->room(), at->displaced()};
}

}  // namespace isotherm
