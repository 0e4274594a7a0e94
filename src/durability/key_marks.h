// KeyMarks: which batches of a journal have changed which keys of late.
//
// A key has two marks, in two tables, by its hash (base/hash.h, hash_in); whoever changes it raises
// both to the number of its batch. Keys share marks, but hardly ever both, so a key whose marks are
// both recent was mostly changed itself. With one mark a key, batches of hundreds of rows would
// each find one that somebody else has raised, and wait for that.
//
// Threads. Any. Memory. 2 MiB, of which the system gives what is used.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/raise_to.h"

namespace isotherm {

class KeyMarks {
 public:
  KeyMarks() : marks_(static_cast<Mark*>(std::calloc(2 * each, sizeof(Mark)))) {
    if (marks_ == nullptr) throw std::bad_alloc();
  }

  void fetch(uint64_t hash) const {
    __builtin_prefetch(&first(hash), 1);
    __builtin_prefetch(&second(hash), 1);
  }
  // The largest other number that one of the marks had.
  uint64_t raise(uint64_t hash, uint64_t number) {
    uint64_t others = 0;
    for (Mark* const mark : {&first(hash), &second(hash)}) {
      if (const uint64_t had = raise_to(*mark, number); had != number) {
        others = std::max(others, had);
      }
    }
    return others;
  }
  // Whether no batch with a larger number than `number` has changed the key but, where both of its
  // marks say so, `own`.
  bool is_before(uint64_t hash, uint64_t number, uint64_t own) const {
    const uint64_t of_first = first(hash).load(std::memory_order_acquire);
    if (of_first <= number) return true;
    const uint64_t of_second = second(hash).load(std::memory_order_acquire);
    return of_second <= number || (of_first == own && of_second == own);
  }

 private:
  using Mark = std::atomic<uint64_t>;
  struct Free {
    void operator()(Mark* marks) const { std::free(marks); }
  };
  static constexpr size_t each = 1 << 17;

  Mark& first(uint64_t hash) const { return marks_.get()[hash % each]; }
  Mark& second(uint64_t hash) const { return marks_.get()[each + (hash >> 32) % each]; }

  const std::unique_ptr<Mark[], Free> marks_;
};

}  // namespace isotherm
