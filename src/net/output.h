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
// A large value is not copied: the engine keeps it where it is, and a piece refers to it until it
// is written. The room behind the bytes before it goes on to serve those behind it:
//
//   chunk  [ …$50000\r\n | \r\n$70000\r\n | room ]      the last piece of a chunk gives it back
//   item                [ value ]
//
// An output that drops is for answers that nobody gets; it holds only what was appended last, at
// most a chunk. So does one from the moment on at which its chunks take more than they may: it is
// cut, and its owner disconnects the client. `size` grows on all the same. How much that is its
// bound says, which it asks while it grows, since others grow at the same time.
//
// Errors. Where there is no memory to append, std::bad_alloc; what was appended before stays.
//
// Threads. Belongs to the connection's loop.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "net/buffer_pool.h"

namespace isotherm::net {

class OutputBound {
 public:
  // How much an output may take whose chunks take so much.
  virtual size_t most(size_t taken) = 0;

 protected:
  ~OutputBound() = default;
};

class Output {
 public:
  static constexpr size_t chunk_bytes = BufferPool::chunk_bytes;

  // Without a pool the output keeps one of its own (tests, tools), and without an engine it copies
  // all values.
  explicit Output(BufferPool* pool = nullptr, Engine* engine = nullptr, bool drops = false);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // Room for at least `bytes` (at most chunk_bytes) contiguous bytes; `commit` says how many were
  // written.
  char* reserve(size_t bytes) {
    if (room() < bytes) add_piece(bytes);
    return write_;
  }
  // Bytes that `reserve` has ready.
  size_t room() const { return static_cast<size_t>(room_end_ - write_); }
  void commit(size_t bytes) {
    write_ += bytes;
    size_ += bytes;
  }

  void append(std::string_view bytes) {
    if (bytes.size() > room()) return append_slow(bytes);
    // A null source is legal for an empty view, but not for memcpy.
    if (!bytes.empty()) std::memcpy(write_, bytes.data(), bytes.size());
    commit(bytes.size());
  }
  void append(char byte) {
    *reserve(1) = byte;
    commit(1);
  }
  // The value of a reply; the epoch of its batch still lasts.
  void append_value(const Reply& reply) { append_value(reply, reply.value()); }
  // A part of it.
  void append_value(const Reply& reply, std::string_view part) {
    if (part.size() <= Engine::least_kept || !append_kept(reply, part)) append(part);
  }
  void append_unsigned(uint64_t value);

  BufferPool& pool() const { return *pool_; }
  // All unwritten bytes of another output of the same pool, and engine if it keeps values, which is
  // empty then.
  void take_over(Output& other);

  // Values that the engine keeps where they are do not count. Without a bound it grows on.
  void bound(OutputBound& by) {
    bound_ = &by;
    most_ = bound_step;
  }
  bool is_cut() const { return lost_ != 0; }

  size_t size() const { return size_ + lost_; }  // unwritten bytes
  bool empty() const { return size_ == 0; }
  size_t pieces() const { return pieces_.size() - first_; }
  // Bytes held, written or not, values included that the engine keeps.
  size_t memory() const;
  std::string text() const;  // a copy of all unwritten bytes

  // All unwritten bytes, where they are one piece; else null.
  std::string_view whole() const {
    return pieces() == 1 ? std::string_view(pieces_[first_].begin, size_) : std::string_view();
  }
  // Fills `pieces` with unwritten pieces from the front; returns how many.
  size_t iovecs(std::span<iovec> pieces) const;
  void consume(size_t bytes) {
    const bool all_of_one = bytes == size_ && pieces_.size() == 1;
    all_of_one ? give_only_piece() : consume_pieces(bytes);
  }
  void clear();  // gives all back

 private:
  static constexpr size_t most_kept = 64;  // places for pieces, without need
  static constexpr size_t bound_step = 1 << 20;

  struct Piece {
    Buffer chunk;       // given back when the piece is written; of a kept value the size alone
    char* begin;        // first unwritten byte
    char* end;          // behind the last filled byte; of the last piece, `write_` says it
    uint64_t kept = 0;  // the engine's handle where it is a value in its place
  };

  // Mostly there is one, which the socket takes whole.
  void give_only_piece() {
    drop(pieces_.front());
    pieces_.pop_back();
    write_ = room_end_ = nullptr;
    size_ = first_ = 0;
  }
  void consume_pieces(size_t bytes);
  bool append_kept(const Reply& reply, std::string_view part);
  void drop(Piece& piece) {
    if (piece.chunk) {
      copied_ -= piece.chunk.capacity;
      pool_->give(std::move(piece.chunk));
    }
    if (piece.kept != 0) [[unlikely]]
      engine_->let_go(piece.kept);
  }
  void append_slow(std::string_view bytes);
  void make_places(size_t more);
  void look_at_bound();
  void add_piece(size_t bytes);
  char* end_of(size_t piece) const {
    return piece + 1 == pieces_.size() ? write_ : pieces_[piece].end;
  }

  std::unique_ptr<BufferPool> own_pool_;
  BufferPool* pool_;
  Engine* const engine_;
  bool drops_;
  std::vector<Piece> pieces_;
  size_t first_ = 0;  // pieces before it are sent and empty
  char* write_ = nullptr;
  char* room_end_ = nullptr;
  size_t size_ = 0;
  size_t copied_ = 0;  // bytes of all chunks
  OutputBound* bound_ = nullptr;
  size_t most_ = std::numeric_limits<size_t>::max();  // from here on the bound is asked again
  size_t lost_ = 0;                                   // bytes that were let go when it was cut
};

}  // namespace isotherm::net
