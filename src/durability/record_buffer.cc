#include "durability/record_buffer.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "base/wait_for_memory.h"

namespace isotherm {

RecordBuffer::RecordBuffer(uint64_t first_lsn, Count count)
    : count_(std::move(count)), end_(first_lsn), released_(first_lsn) {
  spare_.reserve(most_spare);
}

void RecordBuffer::count_memory(int64_t bytes) {
  memory_.fetch_add(static_cast<uint64_t>(bytes), std::memory_order_relaxed);
  if (count_) count_(bytes);
}

RecordBuffer::Chunk RecordBuffer::make_chunk(uint64_t bytes) {
  Chunk chunk;
  chunk.memory = std::make_unique_for_overwrite<char[]>(bytes);
  chunk.capacity = bytes;
  count_memory(static_cast<int64_t>(bytes));
  return chunk;
}

// With the lock. Where the list of chunks finds no memory, nothing has changed.
void RecordBuffer::begin_chunk(Chunk& chunk) {
  chunks_.push_back(std::move(chunk));
  fill_last();
}

// With the lock; from its beginning.
void RecordBuffer::fill_last() {
  chunks_.back().lsn = end();
  next_ = chunks_.back().memory.get();
  left_ = chunks_.back().capacity;
  newest_.store(&chunks_.back(), std::memory_order_release);
}

// With the lock.
RecordBuffer::Room RecordBuffer::take_room(uint64_t bytes) {
  left_ -= bytes;
  const Room room{std::exchange(next_, next_ + bytes), end()};
  end_.store(room.lsn + bytes, std::memory_order_release);
  return room;
}

// `open` lies in a line that whoever writes looks at, so it is stored to before the lock is taken:
// while it is held nothing may have to come from another processor. Memory is taken without the
// lock, too, and nobody waits for that; somebody else may have been faster then.
RecordBuffer::Room RecordBuffer::reserve(uint64_t bytes, std::atomic<uint64_t>& open) {
  Chunk made;
  try {
    for (;;) {
      open.store(end(), std::memory_order_release);
      {
        const std::lock_guard guard(lock_);
        if (bytes > left_ && made.memory != nullptr) {
          begin_chunk(made);
        } else if (bytes > left_ && bytes <= chunk_bytes && !spare_.empty()) {
          begin_chunk(spare_.back());
          spare_.pop_back();
        }
        if (bytes <= left_) {
          if (made.memory != nullptr) keep(made);
          return take_room(bytes);
        }
      }
      open.store(closed, std::memory_order_release);
      made = make_chunk(std::max(bytes, chunk_bytes));
    }
  } catch (const std::bad_alloc&) {
    open.store(closed, std::memory_order_release);
    count_memory(-static_cast<int64_t>(made.capacity));
    return {};
  }
}

// The list of chunks may need a little memory, for which it waits.
RecordBuffer::Room RecordBuffer::adopt(std::unique_ptr<char[]> memory, uint64_t capacity,
                                       uint64_t bytes, std::atomic<uint64_t>& open) {
  Chunk chunk{std::move(memory), capacity, 0};
  count_memory(static_cast<int64_t>(capacity));
  Room room{};
  wait_for_memory([&] {
    const std::lock_guard guard(lock_);
    begin_chunk(chunk);
    open.store(end(), std::memory_order_release);
    room = take_room(bytes);
  });
  return room;
}

// Mostly it is in the newest chunk, which stays while not all of it is released, and then all that
// is behind `lsn` is: a chunk that was begun since begins behind what is there now.
std::string_view RecordBuffer::piece(uint64_t lsn) const {
  uint64_t end = this->end();
  const Chunk* const newest = newest_.load(std::memory_order_acquire);
  if (newest->lsn <= lsn) return {newest->memory.get() + (lsn - newest->lsn), end - lsn};
  const std::lock_guard guard(lock_);
  end = this->end();
  for (auto chunk = chunks_.rbegin(); chunk != chunks_.rend(); end = chunk++->lsn) {
    if (chunk->lsn <= lsn) return {chunk->memory.get() + (lsn - chunk->lsn), end - lsn};
  }
  return {};
}

void RecordBuffer::trim(uint64_t bytes) {
  for (;;) {
    Chunk gone;  // its memory is given back without the lock
    const std::lock_guard guard(lock_);
    if (spare_.size() * chunk_bytes <= bytes) return;
    gone = std::move(spare_.back());
    spare_.pop_back();
    count_memory(-static_cast<int64_t>(gone.capacity));
  }
}

void RecordBuffer::release(uint64_t lsn) {
  while (release_first(lsn)) {
  }
}

// Whether there may be more.
bool RecordBuffer::release_first(uint64_t lsn) {
  Chunk gone;  // its memory is given back without the lock
  const std::lock_guard guard(lock_);
  if (chunks_.empty()) return false;
  const bool is_last = chunks_.size() == 1;
  if ((is_last ? end() : chunks_[1].lsn) > lsn) return false;
  if (is_last && chunks_.front().capacity == chunk_bytes) {
    fill_last();
  } else {
    if (is_last) left_ = 0;
    gone = std::move(chunks_.front());
    chunks_.pop_front();
    if (keep(gone)) gone = {};
  }
  released_.store(chunks_.empty() ? end() : chunks_.front().lsn, std::memory_order_release);
  return !is_last;
}

// With the lock. False: it is not needed.
bool RecordBuffer::keep(Chunk& chunk) {
  if (chunk.capacity == chunk_bytes && spare_.size() < most_spare) {
    spare_.push_back(std::move(chunk));
    return true;
  }
  count_memory(-static_cast<int64_t>(chunk.capacity));
  return false;
}

}  // namespace isotherm
