// Output: the bytes a connection has still to write, as pieces for one gathered write.
//
// A queue of chunks, each with its written and its filled end:
//
//   pieces_[first_]            …            pieces_.back()
//   [ sent | unwritten       ]              [ unwritten | room ]
//
// Replies are appended at the back, straight from the reply slots, so a value is copied once. A
// value longer than the room left fills it and takes a chunk of its own size for the rest. `iovecs`
// lists the unwritten pieces, `consume` drops what the socket took and gives empty chunks back at
// once: an idle connection holds none.
//
// Threads. Belongs to the connection's loop.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "net/buffer_pool.h"

namespace isotherm::net {

class Output {
 public:
  static constexpr size_t chunk_bytes = BufferPool::chunk_bytes;

  // Without a pool the output keeps one of its own (tests, tools).
  explicit Output(BufferPool* pool = nullptr);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // Room for at least `bytes` (at most chunk_bytes) contiguous bytes; `commit` says how many were
  // written.
  char* reserve(size_t bytes) {
    if (static_cast<size_t>(room_end_ - write_) < bytes) add_piece(bytes);
    return write_;
  }
  void commit(size_t bytes) {
    write_ += bytes;
    size_ += bytes;
  }

  void append(std::string_view bytes) {
    if (bytes.size() > static_cast<size_t>(room_end_ - write_)) return append_slow(bytes);
    // A null source is legal for an empty view, but not for memcpy.
    if (!bytes.empty()) std::memcpy(write_, bytes.data(), bytes.size());
    commit(bytes.size());
  }
  void append(char byte) {
    *reserve(1) = byte;
    commit(1);
  }
  void append_integer(int64_t value);
  void append_unsigned(uint64_t value);

  size_t size() const { return size_; }  // unwritten bytes
  bool empty() const { return size_ == 0; }
  size_t pieces() const { return pieces_.size() - first_; }
  size_t memory() const;     // bytes held, written or not
  std::string text() const;  // a copy of all unwritten bytes, for tests

  // Fills `pieces` with unwritten pieces from the front; returns how many.
  size_t iovecs(std::span<iovec> pieces) const;
  void consume(size_t bytes);

 private:
  struct Piece {
    Buffer chunk;
    char* begin;  // first unwritten byte
    char* end;    // behind the last filled byte; of the last piece, `write_` says it
  };

  void append_slow(std::string_view bytes);
  void add_piece(size_t bytes);
  char* end_of(size_t piece) const {
    return piece + 1 == pieces_.size() ? write_ : pieces_[piece].end;
  }
  void drop_sent_pieces();

  std::unique_ptr<BufferPool> own_pool_;
  BufferPool* pool_;
  std::vector<Piece> pieces_;
  size_t first_ = 0;  // pieces before it are sent and empty
  char* write_ = nullptr;
  char* room_end_ = nullptr;
  size_t size_ = 0;
};

}  // namespace isotherm::net
