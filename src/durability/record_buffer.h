// RecordBuffer: blocks in memory, from their end until they are safe for good.
//
//   reserve, fill ─▶ │ block block block │ block … │      piece ─▶ written ─▶ release
// They lie in chunks, one behind the other, as they will in the files. A block lies in one chunk,
// so one that is larger than a chunk has one of its own. A block gets its LSN and its place
// together, by a lock that is held for these few words of one cache line; whoever has it fills it
// afterwards, beside others. Who asks for a piece knows that the blocks in it are filled.
//
// Memory. Chunks are used again, as far as `trim` leaves some. Where one is missing and there is no
// memory, a batch gives its own in the place of one (`adopt`), with its records in it: its changes
// are certain by then, and cannot be refused. `bytes` tells what was appended and is not released,
// `memory` what all chunks take. There is no bound here: who begins a batch asks
// (CommitSink::full).
//
// Threads. Any. What `piece` has returned stays where it is until it is released.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/short_lock.h"

namespace isotherm {

class RecordBuffer {
 public:
  static constexpr uint64_t chunk_bytes = 256 << 10;

  // Is told at once how many bytes of memory more, or fewer, are taken.
  using Count = std::function<void(int64_t bytes)>;

  explicit RecordBuffer(uint64_t first_lsn, Count count = {});

  // What `open` is of who fills no block.
  static constexpr uint64_t closed = ~uint64_t{0};

  struct Room {
    char* at;
    uint64_t lsn;
  };
  // For a block, behind all others. `open` gets an LSN that is not behind the block's before `end`
  // is. Without memory `at` is null, and nothing has changed.
  Room reserve(uint64_t bytes, std::atomic<uint64_t>& open);
  // The same in `memory`, where the block begins.
  Room adopt(std::unique_ptr<char[]> memory, uint64_t capacity, uint64_t bytes,
             std::atomic<uint64_t>& open);
  // Behind all that was reserved.
  uint64_t end() const { return end_.load(std::memory_order_acquire); }
  uint64_t bytes() const {
    const uint64_t released = released_.load(std::memory_order_acquire);
    return end() - released;
  }
  uint64_t memory() const { return memory_.load(std::memory_order_relaxed); }

  // What was reserved from `lsn` on, which is before `end`, and lies together.
  std::string_view piece(uint64_t lsn) const;
  // Gives chunks back that nobody uses, beyond so many bytes.
  void trim(uint64_t bytes);
  // Chunks that end at `lsn` or before are not needed any more.
  void release(uint64_t lsn);
  // The first that was not released.
  uint64_t first_lsn() const { return released_.load(std::memory_order_relaxed); }

 private:
  struct Chunk {
    std::unique_ptr<char[]> memory;
    uint64_t capacity = 0;
    uint64_t lsn = 0;
  };
  static constexpr size_t most_spare = 40;  // what comes between two syncs of a busy store
  Chunk make_chunk(uint64_t bytes);
  void begin_chunk(Chunk& chunk);
  void fill_last();
  Room take_room(uint64_t bytes);
  bool keep(Chunk& chunk);
  bool release_first(uint64_t lsn);
  void count_memory(int64_t bytes);

  const Count count_;

  // Where the next block comes, and how much room there is in the last chunk.
  alignas(64) mutable ShortLock lock_;
  std::atomic<uint64_t> end_;
  char* next_ = nullptr;
  uint64_t left_ = 0;
  std::atomic<const Chunk*> newest_{nullptr};

  alignas(64) std::deque<Chunk> chunks_;
  std::vector<Chunk> spare_;
  std::atomic<uint64_t> released_;
  std::atomic<uint64_t> memory_{0};
};

}  // namespace isotherm
