// RunningBatches: the batches of a journal that run, and how far all of them have come.
//
// Each has a place of its own, of two cache lines: what it collects, and what it publishes. A
// thread looks for a free place from one of its own on, so threads share nothing here.
//
// Watermarks. A batch publishes two bounds before others can see that it has taken what they bound,
// and withdraws them when it is done:
//
//   open_number   none of its numbers is smaller, and its block may not have its place yet
//   open_lsn      where the block begins that it fills, or before
//
// So whoever reads how many numbers, or bytes, were taken, and the bounds then, misses nobody: a
// batch that has taken some of them had published its bound before, and it is still there, or the
// batch is done with it.
//
// Who looks leaves out the places that were never taken: whoever takes one says so before it
// publishes anything.
//
// Threads. Any; a place belongs to the one that took it.
// Limits. Places are never freed; there are as many as were taken at once.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "base/raise_to.h"
#include "base/thread_number.h"
#include "durability/record_buffer.h"
#include "isotherm/batch.h"

namespace isotherm {

struct alignas(64) RunningBatch {
  static constexpr uint64_t none = ~uint64_t{0};

  std::atomic<bool> taken{false};
  std::atomic<uint64_t> open_number{none};
  std::atomic<uint64_t> open_lsn{RecordBuffer::closed};
  std::atomic<uint64_t> max_version{0};  // of all that the place had

  alignas(64) const Batch* batch = nullptr;
  uint64_t number = 0;     // 0: it has changed nothing
  uint64_t builds_on = 0;  // no other batch with a larger number changed its keys before it
  uint64_t end = 0;        // of its last block
  bool only_puts = false;
  std::unique_ptr<char[]> memory;  // room for the head of a block, and records; a part has none
  uint64_t capacity = 0;           // of it; of a part: as if it had its records' room in one
  char* records = nullptr;         // the first
  uint64_t bytes = 0;              // of the records
  uint64_t summed = 0;             // the first of these bytes, which have this sum
  uint32_t crc = 0;

  // Of long values whose records are in its blocks or in blocks before, so that it may record parts
  // of them. Only those of its number count.
  struct Value {
    uint64_t hash;
    uint64_t version;
    uint64_t number;
  };
  std::array<Value, 16> values{};
  bool has_value(uint64_t hash, uint64_t version) const {
    const Value& its = values[hash % values.size()];
    return its.number == number && its.hash == hash && its.version == version;
  }
  void note_value(uint64_t hash, uint64_t version) {
    values[hash % values.size()] = {hash, version, number};
  }
};

class RunningBatches {
 public:
  RunningBatches() = default;
  ~RunningBatches() {
    for (Block* block = first_.next; block != nullptr;) {
      const std::unique_ptr<Block> gone(block);
      block = gone->next;
    }
  }
  RunningBatches(const RunningBatches&) = delete;
  RunningBatches& operator=(const RunningBatches&) = delete;

  RunningBatch& take() {
    for (Block* block = &first_;; block = next_of(*block)) {
      const uint32_t at = find_place(places, [&](uint32_t place) {
        std::atomic<bool>& taken = block->all[place].taken;
        return !taken.load(std::memory_order_relaxed) &&
               !taken.exchange(true, std::memory_order_acquire);
      });
      if (at == places) continue;
      raise_to(block->used, at + 1);
      return block->all[at];
    }
  }
  // The batch is done, and its last block has its place; an open number is withdrawn.
  static void give_back(RunningBatch& batch) {
    batch.open_number.store(RunningBatch::none);
    batch.taken.store(false, std::memory_order_release);
  }

  // The number of the last batch before all that are under way; `last`: the last that was given.
  uint64_t ended_number(const std::atomic<uint64_t>& last) const {
    uint64_t least = last.load(std::memory_order_seq_cst) + 1;
    each([&](const RunningBatch& one) { least = std::min(least, one.open_number.load()); });
    return least - 1;
  }
  // Returns when all blocks before `lsn`, which was the end of the buffer, are filled. Each is
  // copied at this moment.
  void wait_for_blocks(uint64_t lsn) const {
    each([&](const RunningBatch& one) {
      constexpr int looks_before_yield = 64;
      for (int looks = 0; one.open_lsn.load() < lsn; ++looks) {
        looks < looks_before_yield ? __builtin_ia32_pause() : std::this_thread::yield();
      }
    });
  }
  // Of blocks that are filled.
  uint64_t max_version() const {
    uint64_t most = 0;
    each([&](const RunningBatch& one) {
      most = std::max(most, one.max_version.load(std::memory_order_relaxed));
    });
    return most;
  }

 private:
  static constexpr uint32_t places = 64;
  struct Block {
    std::array<RunningBatch, places> all;
    std::atomic<uint32_t> used{0};  // those from here on were never taken
    std::atomic<Block*> next{nullptr};
  };

  static Block* next_of(Block& block) {
    if (Block* const next = block.next.load()) return next;
    auto made = std::make_unique<Block>();
    Block* next = nullptr;
    if (block.next.compare_exchange_strong(next, made.get())) next = made.release();
    return next;
  }
  template <class Visit>
  void each(Visit&& visit) const {
    for (const Block* block = &first_; block != nullptr; block = block->next.load()) {
      const uint32_t used = block->used.load(std::memory_order_acquire);
      for (uint32_t i = 0; i < used; ++i) visit(block->all[i]);
    }
  }

  Block first_;
};

}  // namespace isotherm
