// ChunkPool: all chunks, and which of them are free.
//
// Pages are taken whole and cut into 32 chunks. A chunk is in a class, or free; a free one is in
// the stock (its memory is resident) or cold (given back to the kernel). A chunk is taken from the
// stock first, then a cold one, then one of a new page; always in the lowest page, so that the
// highest pages become empty and can be given back. The stock may hold 2% of the pool, at least a
// page, but nothing beyond the cap; `trim` gives back what is more.
//
// The account. A page costs its chunks' description (36 KiB), and each chunk that is in a class or
// in the stock 64 KiB. A new page enters with all its chunks in the stock, since the first touch
// of a huge page makes all of it resident; near the cap, where that would not fit, it is taken as
// normal pages with all its chunks cold.
//
// Threads. Any; one mutex, taken once per 64 KiB. `chunk`, `in_classes` and `page_limit` take none.
// Limits. 4 TiB of items.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "items/chunk.h"
#include "items/memory_budget.h"
#include "items/page_set.h"
#include "items/pages.h"
#include "items/reservation.h"

namespace isotherm {

class ChunkPool {
 public:
  ChunkPool(Pages& pages, MemoryBudget& budget);
  // Gives every page back.
  ~ChunkPool();
  ChunkPool(const ChunkPool&) = delete;
  ChunkPool& operator=(const ChunkPool&) = delete;

  // A chunk that is in no class, for `size_class` to join; Chunk::none when the cap, or with
  // `force` what may be used beyond it, or the machine has no more memory.
  uint32_t take(uint32_t size_class, bool force);
  // `number` has left its class.
  void give(uint32_t number);
  // Gives back to the kernel at most a page, or a few chunks; false when the stock is small.
  bool trim();

  Chunk& chunk(uint32_t number) { return chunks_[number]; }
  const Chunk& chunk(uint32_t number) const { return chunks_[number]; }
  char* memory(uint32_t number) const {
    return static_cast<char*>(pages_.base()) + (uint64_t{number} << Chunk::shift);
  }

  // For sweeps. Pages below `page_limit` may hold chunks of classes: a bit per chunk in
  // `in_classes`.
  uint32_t page_limit() const { return page_limit_.load(std::memory_order_acquire); }
  uint32_t in_classes(uint32_t page) const {
    return page_states_[page].in_classes.load(std::memory_order_acquire);
  }

  // True when no class can get another chunk.
  bool exhausted() const;
  uint64_t chunks_in_classes() const { return in_classes_.load(std::memory_order_relaxed); }
  uint64_t stock() const { return stock_.load(std::memory_order_relaxed); }

 private:
  struct PageState {
    std::atomic<uint32_t> in_classes{0};
    uint32_t stock = 0;      // free and resident
    uint32_t cold = 0;       // free and given back
    bool divisible = false;  // its chunks can go back one by one
  };
  static constexpr uint32_t all = ~uint32_t{0};
  static constexpr uint64_t description_bytes = Chunk::per_page * sizeof(Chunk);

  bool add_page(bool force);
  uint32_t take_from(uint32_t page, uint32_t& mask);
  void update_sets(uint32_t page);
  void give_page(uint32_t page);
  bool release_chunks(uint32_t page);
  void account(int64_t bytes) { budget_.items.fetch_add(bytes, std::memory_order_relaxed); }
  void add_stock(int64_t chunks);
  uint64_t stock_limit() const;

  Pages& pages_;
  MemoryBudget& budget_;
  const uint64_t max_pages_;
  Reservation description_;
  Chunk* const chunks_;
  LazyArray<PageState> page_states_;
  std::atomic<uint32_t> page_limit_{0};
  std::atomic<uint64_t> in_classes_{0};
  std::atomic<uint64_t> stock_{0};

  std::mutex mutex_;  // all below, and page_states_ but for the atomics
  PageSet with_stock_;
  PageSet with_cold_;
  PageSet free_;        // pages with no chunk in a class
  PageSet releasable_;  // pages with stock that can go back chunk by chunk
};

}  // namespace isotherm
