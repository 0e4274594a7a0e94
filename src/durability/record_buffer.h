// RecordBuffer: records in memory, on their way to the journal's writer.
//
//   many threads: reserve ─▶ copy ─▶ filled        one writer: take ─▶ … ─▶ give_back
// A record lies in one chunk. Places are given out under a mutex that nobody holds while copying;
// the writer takes the chunk that is being filled, with all before it, and waits for those who
// still copy into it, which they do without waiting for anything. LSNs are places in the stream of
// all chunks.
//
// Memory. Chunks are used again; one whose record is larger than a chunk is of its own. `bytes`
// tells what is reserved and not given back. There is no bound here: who begins a batch asks
// (CommitSink::full).
//
// Threads. `reserve` any; the others are the writer's.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace isotherm {

class RecordBuffer {
 public:
  struct Chunk {
    std::unique_ptr<char[]> memory;
    uint64_t capacity = 0;
    uint64_t lsn = 0;
    uint64_t bytes = 0;  // reserved
    std::atomic<uint64_t> filled{0};
  };
  struct Place {
    char* memory;
    uint64_t lsn;
    Chunk* chunk;  // whose `filled` grows by the bytes when they are there
  };

  static constexpr uint64_t chunk_bytes = 256 << 10;

  explicit RecordBuffer(uint64_t first_lsn);

  Place reserve(uint64_t bytes);
  // Behind all that was reserved.
  uint64_t end() const { return end_.load(std::memory_order_acquire); }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

  // All that was reserved so far, filled, in order.
  void take(std::deque<std::unique_ptr<Chunk>>& to);
  void give_back(std::unique_ptr<Chunk> chunk);

 private:
  static constexpr size_t most_spare = 16;
  void begin_chunk(uint64_t least_bytes);

  std::mutex mutex_;
  std::unique_ptr<Chunk> current_;
  std::vector<std::unique_ptr<Chunk>> full_;
  std::vector<std::unique_ptr<Chunk>> spare_;
  std::atomic<uint64_t> end_;
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace isotherm
