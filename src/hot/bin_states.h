// BinStates: which bins of the hash space are hot.
//
// A bin is a range of hashes; there may be any number of them, not just a power of two. A bin goes
// through cold, warming, hot and cooling, and its state is one byte, so a decision is one
// multiplication and one read. What the states allow is said by who keeps hot keys
// (hot/hot_table.h); who changes them, and when, by router/bin_flow.h.
//
// Their number may change while all are cold. A request that still goes by the old number finds a
// cold bin, too, and has ended before any bin becomes hot by the new one, as after every change.
//
// Threads. Any may ask; one changes. A request asks within an epoch, and whoever changes a state
// waits for earlier epochs to end (`Grace`) before it relies on the change.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/give_back.h"
#include "base/macros.h"
#include "items/epoch.h"

namespace isotherm {

enum class BinState : uint8_t { cold, warming, hot, cooling };
inline constexpr int bin_state_count = 4;

class BinStates {
 public:
  static constexpr uint32_t usual_count = 1 << 20;

  // All are cold. `count` is at least 1.
  explicit BinStates(uint32_t count = usual_count)
      : most_(count), count_(count), states_(new std::atomic<BinState>[count]()) {
    in_state_[0].store(count, std::memory_order_relaxed);
  }

  ISOTHERM_INLINE uint32_t count() const { return count_.load(std::memory_order_relaxed); }
  uint32_t most() const { return most_; }
  // From 1 to `most`, while all are cold.
  void set_count(uint32_t count) {
    count_.store(count, std::memory_order_seq_cst);
    in_state_[0].store(count, std::memory_order_relaxed);
    give_back(states_.get() + count, states_.get() + most_);
  }
  ISOTHERM_INLINE uint32_t bin_of(uint64_t hash) const {
    return static_cast<uint32_t>((hash >> 32) * count() >> 32);
  }
  // The lowest hash of a bin.
  uint64_t first_hash(uint32_t bin) const {
    const uint32_t bins = count();
    return (((uint64_t{bin} << 32) + bins - 1) / bins) << 32;
  }

  ISOTHERM_INLINE BinState state(uint32_t bin) const {
    return states_[bin].load(std::memory_order_acquire);
  }
  ISOTHERM_INLINE BinState of(uint64_t hash) const { return state(bin_of(hash)); }
  void set(uint32_t bin, BinState to) {
    const BinState from = states_[bin].exchange(to, std::memory_order_seq_cst);
    in_state_[static_cast<int>(from)].fetch_sub(1, std::memory_order_relaxed);
    in_state_[static_cast<int>(to)].fetch_add(1, std::memory_order_relaxed);
  }
  // How many bins are in a state.
  uint32_t in_state(BinState state) const {
    return in_state_[static_cast<int>(state)].load(std::memory_order_relaxed);
  }

 private:
  const uint32_t most_;
  std::atomic<uint32_t> count_;
  const std::unique_ptr<std::atomic<BinState>[]> states_;
  std::array<std::atomic<uint32_t>, bin_state_count> in_state_{};
};

// Waits, without blocking, until all have left who may not have seen a change.
class Grace {
 public:
  // Right behind the change.
  void begin(EpochDomain& epochs) { epoch_ = epochs.current(); }
  // The caller is in no epoch, or has entered it since.
  bool is_over(EpochDomain& epochs) const { return epochs.advance() > epoch_; }

 private:
  uint64_t epoch_ = 0;
};

}  // namespace isotherm
