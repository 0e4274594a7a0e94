// BufferPool: the memory of a loop's input and output buffers.
//
// Most buffers have one size, and most are needed for one turn only. The pool keeps the free ones,
// so the same memory, still in the cache, serves one connection after the other. `trim` frees the
// buffers that nobody has needed since its last call. Larger buffers come from the heap and are
// freed at once. `memory` counts all buffers, in use or kept. Who takes one may find no memory
// (std::bad_alloc), and nothing has changed then; who gives one back needs none.
//
// Threads. Belongs to one loop.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

namespace isotherm::net {

// Bytes on the heap with their capacity; move-only.
struct Buffer {
  Buffer() = default;
  explicit Buffer(size_t size) : Buffer(std::make_unique_for_overwrite<char[]>(size), size) {}
  Buffer(std::unique_ptr<char[]> memory, size_t size) : bytes(std::move(memory)), capacity(size) {}
  Buffer(Buffer&& other) noexcept
      : bytes(std::move(other.bytes)), capacity(std::exchange(other.capacity, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    bytes = std::move(other.bytes);
    capacity = std::exchange(other.capacity, 0);
    return *this;
  }

  std::unique_ptr<char[]> bytes;
  size_t capacity = 0;

  explicit operator bool() const { return bytes != nullptr; }
};

class BufferPool {
 public:
  static constexpr size_t chunk_bytes = 16 << 10;

  BufferPool() = default;
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // At least `bytes`, at least `chunk_bytes`; not cleared.
  Buffer take(size_t bytes = chunk_bytes) {
    if (bytes <= chunk_bytes && !free_.empty()) {
      Buffer chunk(std::move(free_.back()), chunk_bytes);
      free_.pop_back();
      spare_ = std::min(spare_, free_.size());
      return chunk;
    }
    return take_exactly(std::max(bytes, chunk_bytes));
  }

  // Just so many.
  Buffer take_exactly(size_t bytes) {
    // There are no more chunks, so each finds its place among the free ones.
    const size_t most = (memory_ + bytes) / chunk_bytes;
    if (free_.capacity() < most) free_.reserve(2 * most);
    Buffer made(bytes);
    memory_ += bytes;
    return made;
  }

  void give(Buffer&& chunk) {
    const size_t capacity = std::exchange(chunk.capacity, 0);
    if (capacity == chunk_bytes) return free_.push_back(std::move(chunk.bytes));
    memory_ -= capacity;
    chunk.bytes.reset();
  }

  void trim() {
    memory_ -= spare_ * chunk_bytes;
    free_.erase(free_.begin(), free_.begin() + static_cast<ptrdiff_t>(spare_));
    spare_ = free_.size();
  }

  size_t memory() const { return memory_; }
  // How much that grows by when so many bytes are taken.
  size_t growth(size_t bytes) const {
    return bytes <= chunk_bytes && !free_.empty() ? 0 : std::max(bytes, chunk_bytes);
  }

 private:
  std::vector<std::unique_ptr<char[]>> free_;
  size_t spare_ = 0;  // of these were not needed since the last trim
  size_t memory_ = 0;
};

}  // namespace isotherm::net
