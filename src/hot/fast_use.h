// FastUse: how well the fast part serves one thread, and whether that thread should use it.
//
// A look-up that the fast part cannot answer has cost a cache line more than without it. So when
// most of a thread's look-ups there were in vain, the thread goes to the index at once, but for one
// look-up of some, by which it learns that the fast part would serve it again.
//
// Threads. One; any may read the counters.
#pragma once

#include <cstdint>

#include "base/counter.h"
#include "base/macros.h"

namespace isotherm {

class FastUse {
 public:
  // Look-ups that a decision is made of, and one of how many is made there while it is skipped.
  static constexpr uint32_t window = 1024;
  static constexpr uint32_t one_of = 16;

  // Whether to look there now.
  ISOTHERM_INLINE bool tries() {
    if (ISOTHERM_LIKELY(!skips_)) return true;
    return (++skipped_ & (one_of - 1)) == 0;
  }
  // Notes whether a look found its key.
  ISOTHERM_INLINE void note(bool hit) {
    hits_ += hit ? 1 : 0;
    if (ISOTHERM_UNLIKELY(++looks_ == window)) decide();
  }

  bool skips() const { return skips_; }
  // Full windows only, and look-ups that were not made.
  uint64_t all_looks() const { return all_looks_.get(); }
  uint64_t all_hits() const { return all_hits_.get(); }
  uint64_t all_skipped() const { return all_skipped_.get(); }

 private:
  void decide();

  bool skips_ = false;
  uint32_t looks_ = 0;
  uint32_t hits_ = 0;
  uint32_t skipped_ = 0;
  Counter all_looks_, all_hits_, all_skipped_;
};

}  // namespace isotherm
