// Compactor: empties sparse chunks, so that memory a class no longer needs can serve another.
//
// When free items make up more than 15% of all chunks (1% when nothing else is left), the sparsest
// chunks of the class with the most free bytes are closed: nothing of them is handed out any more,
// threads' caches give their free items back, and their live items are moved, a bounded number a
// call. A chunk goes back to the pool by itself when its last item is free. A chunk that does not
// become empty, because it has a collision node, which cannot be moved, is opened again after a
// while.
//
// So little is enough at the cap since what is evicted lies together: the CLOCK's hand leaves
// sparse chunks behind, and few items of these have to be moved. A small store has few chunks for
// its classes, and is allowed more.
//
// Threads. One at a time, by try_lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "items/chunk_walk.h"
#include "items/class_lists.h"
#include "items/visitor.h"

namespace isotherm {

class Compactor {
 public:
  // `classes` are all classes, which have `free_bytes`; `drains` is raised when chunks were closed,
  // `count` says how many are.
  Compactor(ChunkPool& pool, ClassLists* classes, const std::atomic<int64_t>& free_bytes,
            std::atomic<uint64_t>& drains, std::atomic<uint64_t>& count)
      : pool_(pool), classes_(classes), free_bytes_(free_bytes), drains_(drains), count_(count) {}

  uint32_t step(uint32_t limit, Visitor relocate);

  // Free bytes that it leaves alone where no class can get another chunk, of so many in chunks.
  static uint64_t tolerated_at_cap(uint64_t bytes) {
    constexpr uint64_t few_chunks = 8 * Chunk::bytes;
    return std::max(bytes / 100, std::min(bytes / 16, few_chunks));
  }

 private:
  // A chunk that is being emptied.
  struct Closed {
    uint32_t number;
    uint32_t size_class;
    uint32_t item = 0;    // the next to look at
    uint32_t passes = 0;  // over all its items
  };
  enum class Outcome : uint8_t { pause, done, no_memory };

  Outcome empty(Closed& closed, uint32_t limit, uint32_t& looked, Visitor relocate);
  bool close_sparsest();
  bool wasteful() const;
  uint32_t most_wasteful_class() const;

  ChunkPool& pool_;
  ClassLists* const classes_;
  const std::atomic<int64_t>& free_bytes_;
  std::atomic<uint64_t>& drains_;
  std::atomic<uint64_t>& count_;
  std::mutex mutex_;  // all below
  std::vector<Closed> closed_;
  size_t next_ = 0;        // in closed_
  uint32_t patience_ = 0;  // calls before the next look for waste
};

}  // namespace isotherm
