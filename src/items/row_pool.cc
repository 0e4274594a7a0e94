#include "items/row_pool.h"

#include <algorithm>
#include <thread>

#include "base/wait_for_memory.h"

namespace isotherm {

RowPool::RowPool(Pages& pages, MemoryBudget& budget, EpochDomain& epochs, uint64_t row_bytes,
                 bool with_heads)
    : pages_(pages),
      budget_(budget),
      epochs_(epochs),
      head_bytes_(with_heads ? sizeof(RowHead) : 0),
      stride_((row_bytes + 7) / 8 * 8 + head_bytes_),
      reserve_(std::clamp<uint64_t>(Pages::page_bytes / 8 / stride_, 1, most_reserved)) {}

// Under the mutex, like those that follow.
void RowPool::reclaim() {
  if (retired_.empty()) return;
  const uint64_t oldest = epochs_.advance();
  while (!retired_.empty() && retired_.front().epoch < oldest) {
    char* const row = reinterpret_cast<char*>(retired_.pop().location);
    if (head_bytes_ != 0) RowHead::of(row).drop();  // which its last reader may have marked
    wait_for_memory([&] { free_.push_back(row); });
  }
}

bool RowPool::fits_a_page() const {
  if (head_bytes_ == 0) return budget_.fits(Pages::page_bytes);
  constexpr uint64_t least_index = uint64_t{2} << 20;
  const uint64_t rows = (with_heads_.size() + 1) * (Pages::page_bytes / stride_);
  const auto index = static_cast<uint64_t>(budget_.index.load());
  const uint64_t wanted = least_index + rows * index_bytes;
  return budget_.fits(Pages::page_bytes + (wanted > index ? wanted - index : 0));
}

bool RowPool::add_page() {
  if (!fits_a_page()) return false;
  const uint64_t page = pages_.take();
  if (page == Pages::npos) return false;
  budget_.items.fetch_add(Pages::page_bytes);
  next_ = static_cast<char*>(pages_.base()) + page + head_bytes_;
  if (head_bytes_ != 0) wait_for_memory([&] { with_heads_.push_back(next_); });
  left_ = Pages::page_bytes / stride_;
  any_page_ = true;
  return true;
}

size_t RowPool::pop(std::span<char*> rows, size_t keep) {
  const size_t can = free_.size() > keep ? free_.size() - keep : 0;
  const size_t count = std::min(rows.size(), can);
  std::copy(free_.end() - static_cast<ptrdiff_t>(count), free_.end(), rows.begin());
  free_.resize(free_.size() - count);
  return count;
}

size_t RowPool::take(std::span<char*> rows) {
  const std::lock_guard guard(mutex_);
  wait_for_memory([&] { free_.reserve(rows.size() + reserve_); });
  if (free_.size() < rows.size() + reserve_) reclaim();
  while (free_.size() < rows.size() + reserve_) {
    if (left_ == 0 && !add_page()) break;
    const uint64_t more = std::min<uint64_t>(left_, rows.size() + reserve_ - free_.size());
    for (uint64_t i = 0; i < more; ++i, next_ += stride_) free_.push_back(next_);
    left_ -= more;
  }
  return pop(rows, reserve_);
}

size_t RowPool::take_reserved(std::span<char*> rows) {
  while (true) {
    {
      const std::lock_guard guard(mutex_);
      reclaim();
      const size_t count = pop(rows, 0);
      if (count != 0 || !any_page_) return count;
    }
    std::this_thread::yield();  // others have the reserve for a part of a call
  }
}

bool RowPool::will_have_rows() {
  const std::lock_guard guard(mutex_);
  return !retired_.empty() || free_.size() + left_ > reserve_;
}

void RowPool::give(std::span<char* const> unused, std::span<char* const> unlinked) {
  const std::lock_guard guard(mutex_);
  wait_for_memory([&] { free_.insert(free_.end(), unused.begin(), unused.end()); });
  const uint64_t epoch = epochs_.current();
  for (char* const row : unlinked) {
    wait_for_memory([&] { retired_.push({reinterpret_cast<uint64_t>(row), epoch}); });
  }
}

}  // namespace isotherm
