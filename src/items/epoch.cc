#include "items/epoch.h"

#include <algorithm>

namespace isotherm {

EpochDomain::Slot* EpochDomain::acquire() {
  for (Slot& slot : slots_) {
    bool taken = false;
    if (slot.taken.compare_exchange_strong(taken, true)) return &slot;
  }
  return nullptr;
}

void EpochDomain::release(Slot* slot) { slot->taken.store(false); }

void EpochDomain::lock_exclusive(Slot& slot) {
  exclusive_mutex_.lock();
  exclusive_.store(true, std::memory_order_seq_cst);
  for (Slot& other : slots_) {
    for (;;) {
      const uint64_t announced = other.announced.load(std::memory_order_seq_cst);
      if (announced == 0) break;
      other.announced.wait(announced, std::memory_order_seq_cst);
    }
  }
  slot.announced.store(epoch_.load(std::memory_order_relaxed), std::memory_order_seq_cst);
}

void EpochDomain::unlock_exclusive() {
  exclusive_.store(false, std::memory_order_seq_cst);
  exclusive_.notify_all();
  exclusive_mutex_.unlock();
}

uint64_t EpochDomain::advance() {
  const uint64_t now = epoch_.fetch_add(1, std::memory_order_seq_cst) + 1;
  uint64_t oldest = now;
  for (const Slot& slot : slots_) {
    const uint64_t announced = slot.announced.load(std::memory_order_seq_cst);
    if (announced != 0) oldest = std::min(oldest, announced);
  }
  return oldest;
}

}  // namespace isotherm
