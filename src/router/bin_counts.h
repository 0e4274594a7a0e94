// BinCounts: how often each bin was asked for, from a sample of live requests that fades.
//
// Threads note one of `one_of` of their requests (RequestSample); the trainer reads all counts and
// then halves them, so a request counts half as much after each training.
//
// Threads. note: any. The others: the trainer.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/give_back.h"
#include "base/macros.h"
#include "hot/bin_states.h"

namespace isotherm {

class BinCounts {
 public:
  explicit BinCounts(const BinStates& bins) : bins_(bins), counts_(bins.most()) {}

  ISOTHERM_INLINE void note(uint64_t hash) {
    counts_[bins_.bin_of(hash)].fetch_add(1, std::memory_order_relaxed);
  }
  // Copies all counts and returns their sum.
  uint64_t read(std::vector<uint32_t>& counts) const {
    counts.resize(bins_.count());
    uint64_t sum = 0;
    for (size_t bin = 0; bin < counts.size(); ++bin) {
      counts[bin] = counts_[bin].load(std::memory_order_relaxed);
      sum += counts[bin];
    }
    return sum;
  }
  void age() {
    for (uint32_t bin = 0; bin < bins_.count(); ++bin) {
      std::atomic<uint32_t>& count = counts_[bin];
      const uint32_t now = count.load(std::memory_order_relaxed);
      if (now != 0) count.fetch_sub(now - now / 2, std::memory_order_relaxed);
    }
  }
  // Behind a change of the number of bins.
  void forget() {
    for (uint32_t bin = 0; bin < bins_.count(); ++bin) {
      counts_[bin].store(0, std::memory_order_relaxed);
    }
    give_back(counts_.data() + bins_.count(), counts_.data() + counts_.size());
  }

 private:
  const BinStates& bins_;
  std::vector<std::atomic<uint32_t>> counts_;
};

// Which requests of a thread are noted.
class RequestSample {
 public:
  static constexpr size_t one_of = 61;  // so that no pattern of a batch is met again and again

  // The hashes of a batch's keys.
  ISOTHERM_INLINE void take(std::span<const uint64_t> hashes, BinCounts& counts) {
    for (; next_ < hashes.size(); next_ += one_of) counts.note(hashes[next_]);
    next_ -= hashes.size();
  }

 private:
  size_t next_ = 0;  // behind the last batch
};

}  // namespace isotherm
