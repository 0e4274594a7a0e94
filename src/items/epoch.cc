#include "items/epoch.h"

#include <algorithm>

namespace isotherm {

EpochDomain::Slot* EpochDomain::acquire() {
  for (uint32_t block = 0; block < block_count_; ++block) {
    if (Slot* slot = take_of(block); slot != nullptr) return slot;
  }
  return nullptr;
}

EpochDomain::Slot* EpochDomain::take_of(uint32_t block) {
  Slot* slots = blocks_[block].load(std::memory_order_acquire);
  if (slots == nullptr) {
    const std::lock_guard guard(blocks_mutex_);
    slots = blocks_[block].load(std::memory_order_relaxed);
    if (slots == nullptr) {
      slots = new Slot[usual_slots];
      blocks_[block].store(slots, std::memory_order_release);
    }
  }
  for (uint32_t i = 0; i < usual_slots; ++i) {
    bool taken = false;
    if (!slots[i].taken.compare_exchange_strong(taken, true)) continue;
    const uint32_t end = block * usual_slots + i + 1;
    uint32_t used = used_.load(std::memory_order_seq_cst);
    while (used < end && !used_.compare_exchange_weak(used, end, std::memory_order_seq_cst)) {
    }
    return &slots[i];
  }
  return nullptr;
}

void EpochDomain::release(Slot* slot) { slot->taken.store(false); }

uint64_t EpochDomain::advance() {
  const uint64_t now = epoch_.fetch_add(1, std::memory_order_seq_cst) + 1;
  uint64_t oldest = now;
  each_slot([&](const Slot& slot) {
    const uint64_t announced = slot.announced.load(std::memory_order_seq_cst) & epochs;
    if (announced != 0) oldest = std::min(oldest, announced);
  });
  return oldest;
}

}  // namespace isotherm
