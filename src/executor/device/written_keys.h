// WrittenKeys: a filter over the keys that a round, or one of its participants, writes
// (executor/device/rounds.h): a bit for each key, which other keys may share.
//
// Keys are 64-bit hashes. Where it says no, the key was not added; a false yes costs time only.
//
// Threads. begin: one, before the others; add: any; may_have: any, when all have added. Limits. Two
// to four bits a row.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

namespace isotherm {

class WrittenKeys {
 public:
  // Empties it and makes it large enough; by one thread.
  void begin(uint64_t rows) {
    const uint64_t words = std::bit_ceil(rows / 32 + 1);
    if (words > words_.size()) std::vector<std::atomic<uint64_t>>(words).swap(words_);
    mask_ = words - 1;
    for (uint64_t i = 0; i < words; ++i) words_[i].store(0, std::memory_order_relaxed);
  }
  void add(uint64_t key) { words_[word(key)].fetch_or(bit(key), std::memory_order_relaxed); }
  bool may_have(uint64_t key) const {
    return (words_[word(key)].load(std::memory_order_relaxed) & bit(key)) != 0;
  }

 private:
  uint64_t word(uint64_t key) const { return key >> 40 & mask_; }
  static uint64_t bit(uint64_t key) { return uint64_t{1} << (key >> 34 & 63); }

  std::vector<std::atomic<uint64_t>> words_;
  uint64_t mask_ = 0;
};

}  // namespace isotherm
