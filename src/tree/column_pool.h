// ColumnPool: columns by which threads ask a device (gpu/items/direct_gets.h,
// gpu/sorted/direct_ranges.h), made when they are first wanted, lent to one at a time, and kept for
// the next one.
//
// Who holds columns until what they show is no longer needed, as a batch does, may wait for others
// meanwhile. So a quarter is only for those that give them back before they wait for anything but
// the device: threads that find no others go on with these, one after another, and copy what they
// show.
//
// Threads. Any. Memory. Pinned, `bytes`, at most `most_bytes`: where that is lent there are none.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "executor/backing.h"

namespace isotherm {

template <class Columns>
class ColumnPool {
 public:
  explicit ColumnPool(uint64_t most_bytes) : most_bytes_(most_bytes) {}
  virtual ~ColumnPool() = default;
  ColumnPool(const ColumnPool&) = delete;
  ColumnPool& operator=(const ColumnPool&) = delete;

  // Gives them back.
  class Lent final : public Backing::Held {
   public:
    Lent(ColumnPool& pool, std::unique_ptr<Columns> columns, bool held)
        : pool_(pool), columns_(std::move(columns)), held_(held) {}
    ~Lent() override { pool_.give_back(std::move(columns_), held_); }
    Columns& columns() { return *columns_; }

   private:
    ColumnPool& pool_;
    std::unique_ptr<Columns> columns_;
    const bool held_;
  };

  // Null: not now. `held`: until what they show is no longer needed; else it waits while others
  // have some that they give back soon, and the thread must have no such columns itself. Throws
  // what `make` throws.
  std::unique_ptr<Lent> lend(bool held) {
    std::unique_lock lock(mutex_);
    std::unique_ptr<Columns> columns = take_or_make(held);
    while (columns == nullptr && !held && passing_ != 0) {
      returned_.wait(lock);
      columns = take_or_make(held);
    }
    if (columns == nullptr) return nullptr;
    if (held) {
      held_bytes_ += columns->pinned_bytes();
    } else {
      ++passing_;
    }
    return std::make_unique<Lent>(*this, std::move(columns), held);
  }
  // Of columns that nobody has.
  void release() {
    const std::lock_guard guard(mutex_);
    for (const auto& columns : free_) bytes_.fetch_sub(columns->pinned_bytes());
    free_.clear();
  }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  // All with the lock. What new columns would take, about; whether old ones are as good as new
  // ones, or are given up; new ones, or null.
  virtual uint64_t wanted_bytes() = 0;
  virtual bool fits(const Columns& /*columns*/) const { return true; }
  virtual std::unique_ptr<Columns> make() = 0;

  std::unique_ptr<Columns> take_or_make(bool held) {
    const uint64_t wanted = wanted_bytes();
    if (held && held_bytes_ + wanted > most_bytes_ / 4 * 3) return nullptr;
    while (!free_.empty()) {
      std::unique_ptr<Columns> columns = std::move(free_.back());
      free_.pop_back();
      if (fits(*columns)) return columns;
      bytes_.fetch_sub(columns->pinned_bytes());
    }
    if (bytes() + wanted > most_bytes_) return nullptr;
    std::unique_ptr<Columns> columns = make();
    if (columns != nullptr) bytes_.fetch_add(columns->pinned_bytes());
    return columns;
  }
  void give_back(std::unique_ptr<Columns> columns, bool held) {
    {
      const std::lock_guard guard(mutex_);
      if (held) {
        held_bytes_ -= columns->pinned_bytes();
      } else {
        --passing_;
      }
      free_.push_back(std::move(columns));
    }
    returned_.notify_all();
  }

  const uint64_t most_bytes_;
  std::atomic<uint64_t> bytes_{0};
  std::mutex mutex_;  // of what follows
  uint64_t held_bytes_ = 0;
  uint32_t passing_ = 0;  // columns that are lent and not held
  std::condition_variable returned_;
  std::vector<std::unique_ptr<Columns>> free_;
};

}  // namespace isotherm
