// BufferPool: the memory of a loop's input and output buffers.
//
// Most buffers have one size, and most are needed for one turn only; the pool keeps a few
// free ones, so the same memory, still in the cache, serves one connection after the other. Larger
// buffers come from the heap and go back at once. `memory` counts both, in use or kept, so that
// buffers count against maxmemory.
//
// Threads. Belongs to one loop.
// Limits. Keeps at most `kept_buffers` free buffers.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

namespace isotherm::net {

// Bytes on the heap with their capacity; move-only.
struct Buffer {
  std::unique_ptr<char[]> bytes;
  size_t capacity = 0;

  explicit operator bool() const { return bytes != nullptr; }
};

class BufferPool {
 public:
  static constexpr size_t chunk_bytes = 16 << 10;
  static constexpr size_t kept_buffers = 64;

  BufferPool() { free_.reserve(kept_buffers); }
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // At least `bytes`, at least `chunk_bytes`; not cleared.
  Buffer take(size_t bytes = chunk_bytes) {
    if (bytes <= chunk_bytes && !free_.empty()) {
      Buffer chunk = std::move(free_.back());
      free_.pop_back();
      return chunk;
    }
    const size_t capacity = bytes <= chunk_bytes ? chunk_bytes : bytes;
    memory_ += capacity;
    return {std::make_unique_for_overwrite<char[]>(capacity), capacity};
  }

  // Just so many.
  Buffer take_exactly(size_t bytes) {
    memory_ += bytes;
    return {std::make_unique_for_overwrite<char[]>(bytes), bytes};
  }

  void give(Buffer chunk) {
    if (chunk.capacity == chunk_bytes && free_.size() < kept_buffers) {
      free_.push_back(std::move(chunk));
    } else {
      memory_ -= chunk.capacity;
    }
  }

  size_t memory() const { return memory_; }

 private:
  std::vector<Buffer> free_;
  size_t memory_ = 0;
};

}  // namespace isotherm::net
