#include "durability/record_buffer.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace isotherm {

RecordBuffer::RecordBuffer(uint64_t first_lsn) : end_(first_lsn) { begin_chunk(chunk_bytes); }

void RecordBuffer::begin_chunk(uint64_t least_bytes) {
  if (spare_.empty() || least_bytes > chunk_bytes) {
    current_ = std::make_unique<Chunk>();
    current_->capacity = std::max(least_bytes, chunk_bytes);
    current_->memory = std::make_unique_for_overwrite<char[]>(current_->capacity);
  } else {
    current_ = std::move(spare_.back());
    spare_.pop_back();
  }
  current_->lsn = end_.load(std::memory_order_relaxed);
  current_->bytes = 0;
  current_->filled.store(0, std::memory_order_relaxed);
}

RecordBuffer::Place RecordBuffer::reserve(uint64_t bytes) {
  const std::lock_guard guard(mutex_);
  if (bytes > current_->capacity - current_->bytes) {
    if (current_->bytes != 0) full_.push_back(std::move(current_));
    begin_chunk(bytes);
  }
  const uint64_t lsn = end_.load(std::memory_order_relaxed);
  const Place place{current_->memory.get() + current_->bytes, lsn, current_.get()};
  current_->bytes += bytes;
  end_.store(lsn + bytes, std::memory_order_release);
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return place;
}

void RecordBuffer::take(std::deque<std::unique_ptr<Chunk>>& to) {
  const size_t before = to.size();
  {
    const std::lock_guard guard(mutex_);
    for (auto& chunk : full_) to.push_back(std::move(chunk));
    full_.clear();
    if (current_->bytes != 0) {
      to.push_back(std::move(current_));
      begin_chunk(chunk_bytes);
    }
  }
  for (size_t i = before; i < to.size(); ++i) {
    while (to[i]->filled.load(std::memory_order_acquire) != to[i]->bytes) {
      std::this_thread::yield();
    }
  }
}

void RecordBuffer::give_back(std::unique_ptr<Chunk> chunk) {
  bytes_.fetch_sub(chunk->bytes, std::memory_order_relaxed);
  if (chunk->capacity != chunk_bytes) return;
  const std::lock_guard guard(mutex_);
  if (spare_.size() < most_spare) spare_.push_back(std::move(chunk));
}

}  // namespace isotherm
