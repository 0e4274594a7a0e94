// WalkedIndex: the index of a database, of whichever kind, for those who walk over it or take it
// apart. The kinds' own essays say what walks promise (index/line_index.h, index/cache_index.h).
//
// Threads. As the index.
#pragma once

#include <cstdint>
#include <memory>

#include "index/cache_index.h"
#include "index/line_index.h"

namespace isotherm {

class WalkedIndex {
 public:
  WalkedIndex() = default;
  WalkedIndex(LineIndex* lines, CacheIndex* cache) : lines_(lines), cache_(cache) {}

  explicit operator bool() const { return lines_ != nullptr || cache_ != nullptr; }

  template <class Visit>
  uint64_t scan(uint64_t bound, Visit&& visit) const {
    return lines_ != nullptr ? lines_->scan(bound, visit) : cache_->scan(bound, visit);
  }
  template <class Visit, class Done>
  uint64_t scan_locked(uint64_t bound, Visit&& visit, Done&& done) const {
    return lines_ != nullptr ? lines_->scan_locked(bound, visit, done)
                             : cache_->scan_locked(bound, visit, done);
  }
  // Parts as large as so many lines.
  template <class Visit>
  bool drain(uint32_t most_lines, Visit&& visit) const {
    if (lines_ != nullptr) return lines_->drain(most_lines, visit);
    return cache_->drain(most_lines * Bucket::slots, [&](uint64_t, uint64_t word) { visit(word); });
  }

 private:
  LineIndex* lines_ = nullptr;
  CacheIndex* cache_ = nullptr;
};

// One that a flush took away from its database.
struct DetachedIndex {
  std::unique_ptr<LineIndex> lines;
  std::unique_ptr<CacheIndex> cache;

  explicit operator bool() const { return lines != nullptr || cache != nullptr; }
  WalkedIndex walked() const { return {lines.get(), cache.get()}; }
};

}  // namespace isotherm
