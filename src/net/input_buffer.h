// InputBuffer: the bytes a connection has read and not consumed.
//
//   [ consumed | unread | room ]
//
// Requests borrow bytes from the unread part and from what was consumed in this turn, so the buffer
// moves only in `make_room`, `shrink` and `pack`, which the connection calls when nothing borrows.
// A buffer starts as one chunk, or as a few for a client that has just filled one, so that its
// requests are received together. It grows to the size of the request at its front. A client can
// announce any length, so beyond `trusted_bytes` the buffer grows only when it is full, and only to
// four times what has arrived; so all its copies together take at most 4/3 of that. An empty buffer
// is given back. For a client that falls silent in the middle of a request only a small buffer is
// kept.
//
// Threads. Belongs to the connection's loop.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

#include "net/buffer_pool.h"

namespace isotherm::net {

class InputBuffer {
 public:
  static constexpr size_t trusted_bytes = BufferPool::chunk_bytes;
  static constexpr size_t small_bytes = 1 << 10;
  static constexpr size_t fast_bytes = 64 << 10;  // for a client that fills its buffer

  explicit InputBuffer(BufferPool& pool) : pool_(pool) {}
  ~InputBuffer() { release(); }
  InputBuffer(const InputBuffer&) = delete;
  InputBuffer& operator=(const InputBuffer&) = delete;

  std::string_view unread() const { return {buffer_.bytes.get() + begin_, end_ - begin_}; }
  void consume(size_t bytes) { begin_ += bytes; }
  // Takes as many away from its end.
  void drop_back(size_t bytes) { end_ -= bytes; }
  // Takes back bytes that were consumed last, since the buffer moved.
  void take_back(size_t bytes) { begin_ -= bytes; }

  // Where the next bytes go, and how many went there.
  std::span<char> room() { return {buffer_.bytes.get() + end_, buffer_.capacity - end_}; }
  void commit(size_t bytes) { end_ += bytes; }

  // Makes room for more bytes of the request at the front, which needs `wanted` bytes as far as
  // known; `fast`: from a client that has sent more than there was room for.
  void make_room(size_t wanted, bool fast = false);
  // How many bytes more the pool has for that.
  size_t growth(size_t wanted, bool fast = false) const {
    const size_t next =
        begin_ == end_ && !buffer_ ? first_capacity(fast) : next_capacity(wanted, fast);
    if (next <= buffer_.capacity) return 0;
    const size_t taken = pool_.growth(next);
    return taken - std::min(taken, buffer_.capacity);
  }
  // Gives an empty buffer back.
  void shrink() {
    if (begin_ == end_) release();
  }
  // The client sends nothing for the moment.
  void pack() {
    shrink();
    if (buffer_.capacity <= small_bytes || end_ - begin_ > small_bytes) return;
    pool_.give(move_to(pool_.take_exactly(small_bytes)));
  }
  // Gives away what requests borrow from; what is unread goes on elsewhere.
  Buffer leave();
  size_t memory() const { return buffer_.capacity; }
  void release() {
    if (buffer_) pool_.give(std::move(buffer_));
    begin_ = end_ = 0;
  }

 private:
  size_t needed(size_t wanted) const;
  static size_t first_capacity(bool fast) { return fast ? fast_bytes : trusted_bytes; }
  size_t next_capacity(size_t wanted, bool fast) const;
  Buffer move_to(Buffer target);  // the one before

  BufferPool& pool_;
  Buffer buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace isotherm::net
