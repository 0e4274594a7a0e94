// EpochGroup: the slots of one owner, who holds several batches at a time (items/epoch.h).
//
// Each batch announces an epoch of its own, so batches that overlap for ever hold no memory back
// for ever. The gate is the group's: while one of its slots is inside, others enter though an
// exclusive section waits, because that waits for the first. Whoever begins batches without end
// must therefore stop when `must_stop` says so, until all its batches are cleared.
//
// Threads. Any, each slot by one at a time.
#pragma once

#include <cstdint>
#include <mutex>

#include "items/epoch.h"

namespace isotherm {

class EpochGroup {
 public:
  explicit EpochGroup(EpochDomain& epochs) : epochs_(epochs) {}

  void enter(EpochDomain::Slot& slot) {
    while (!enter_now(slot)) epochs_.wait_until_open();
  }
  void leave(EpochDomain::Slot& slot) {
    const std::lock_guard guard(mutex_);
    --inside_;
    epochs_.leave(slot);
  }
  // One more is inside by other means: `enter` of the domain, or an exclusive section.
  void count_in() {
    const std::lock_guard guard(mutex_);
    ++inside_;
  }
  // Whether some slot is inside; for the owner, who alone lets them leave.
  bool inside() {
    const std::lock_guard guard(mutex_);
    return inside_ != 0;
  }
  bool must_stop() const { return epochs_.exclusive_wanted(); }

 private:
  bool enter_now(EpochDomain::Slot& slot) {
    const std::lock_guard guard(mutex_);
    if (inside_ != 0) {
      epochs_.enter_also(slot);
    } else if (!epochs_.try_enter(slot)) {
      return false;
    }
    ++inside_;
    return true;
  }

  EpochDomain& epochs_;
  std::mutex mutex_;
  uint32_t inside_ = 0;
};

}  // namespace isotherm
