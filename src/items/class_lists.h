// ClassLists: the chunks of one size class, and which of their items are free.
//
// Items move in bulk: `take` hands some hundreds to a thread's cache under one lock, `give` takes
// as many back. Chunks with free items are in eight lists by how much of them is free. `take`
// serves from the fullest, so sparse chunks become empty by themselves, and an empty chunk goes
// back to the pool.
//
// Draining keeps memory from staying with a class that no longer needs it. `drain_sparsest` takes
// the sparsest chunk out of the lists, so that nothing of it is handed out, and raises `drains()`,
// by which caches notice that they may hold free items of it. The chunk leaves the class when its
// last item is given; `undrain` takes it in again.
//
// Threads. Any; one mutex. The pool's lock is taken within it. Counters may be read without.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "items/chunk_pool.h"
#include "items/location.h"

namespace isotherm {

class ClassLists {
 public:
  ClassLists() = default;
  ClassLists(const ClassLists&) = delete;
  ClassLists& operator=(const ClassLists&) = delete;
  // Before any other call. `free_bytes` sums the free items of all classes.
  void open(ChunkPool& pool, uint32_t size_class, std::atomic<int64_t>& free_bytes);

  // Writes up to `wanted` free items to `items` and returns how many; fewer only where chunks are
  // used up and the pool has no other.
  uint32_t take(Location* items, uint32_t wanted, bool force);
  void give(const Location* items, uint32_t count);

  // The chunk now being drained, or Chunk::none where the other chunks could not take its items.
  uint32_t drain_sparsest();
  void undrain(uint32_t number);
  uint32_t drains() const { return drains_.load(std::memory_order_acquire); }

  uint64_t free_items() const {
    const int64_t free = free_items_.load(std::memory_order_relaxed);
    return free > 0 ? static_cast<uint64_t>(free) : 0;
  }
  uint64_t free_bytes() const { return free_items() * bytes_; }

 private:
  static constexpr uint32_t bands = 8;  // 0: the fullest
  static constexpr uint8_t unlisted = bands;

  uint32_t take_from(uint32_t number, Location* items, uint32_t wanted);
  uint8_t band_of(const Chunk& chunk) const;
  void place(uint32_t number);
  void link(uint32_t number, uint8_t band);
  void unlink(uint32_t number);
  void leave(uint32_t number);
  void count_free(int64_t change);

  ChunkPool* pool_ = nullptr;
  uint32_t size_class_ = 0;
  uint32_t capacity_ = 0;
  uint64_t bytes_ = 0;
  std::atomic<int64_t>* free_bytes_of_all_ = nullptr;
  std::atomic<int64_t> free_items_{0};  // that can be taken: draining chunks excluded
  std::atomic<uint32_t> drains_{0};

  std::mutex mutex_;
  uint32_t heads_[bands];
};

}  // namespace isotherm
