// ColumnPool: columns by which threads ask a device (gpu/items/direct_gets.h,
// gpu/sorted/direct_ranges.h), made when they are first wanted, lent to one at a time, and kept for
// the next one.
//
// Threads. Any. Memory. Pinned, `bytes`, at most `most_bytes`: where that is lent there are none.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace isotherm {

template <class Columns>
class ColumnPool {
 public:
  // Null: there are none.
  using Make = std::function<std::unique_ptr<Columns>()>;
  // `least_bytes`: that columns take at least, each.
  ColumnPool(uint64_t most_bytes, uint64_t least_bytes, Make make)
      : most_bytes_(most_bytes), least_bytes_(least_bytes), make_(std::move(make)) {}

  // Gives them back.
  class Lent {
   public:
    Lent(ColumnPool& pool, std::unique_ptr<Columns> columns)
        : pool_(pool), columns_(std::move(columns)) {}
    ~Lent() {
      const std::lock_guard guard(pool_.mutex_);
      pool_.free_.push_back(std::move(columns_));
    }
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;
    Columns& columns() { return *columns_; }

   private:
    ColumnPool& pool_;
    std::unique_ptr<Columns> columns_;
  };

  // Null: not now. Throws what making them throws.
  std::unique_ptr<Lent> lend() {
    const std::lock_guard guard(mutex_);
    std::unique_ptr<Columns> columns;
    if (!free_.empty()) {
      columns = std::move(free_.back());
      free_.pop_back();
    } else if (bytes() + least_bytes_ <= most_bytes_) {
      columns = make_();
      if (columns != nullptr) bytes_.fetch_add(columns->pinned_bytes());
    }
    return columns == nullptr ? nullptr : std::make_unique<Lent>(*this, std::move(columns));
  }
  // Of columns that nobody has.
  void release() {
    const std::lock_guard guard(mutex_);
    for (const auto& columns : free_) bytes_.fetch_sub(columns->pinned_bytes());
    free_.clear();
  }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  const uint64_t most_bytes_;
  const uint64_t least_bytes_;
  const Make make_;
  std::atomic<uint64_t> bytes_{0};
  std::mutex mutex_;  // of what follows
  std::vector<std::unique_ptr<Columns>> free_;
};

}  // namespace isotherm
