// Epochs: memory is reused only when no batch can still read it; and the gate for commands over
// several keys.
//
// Every batch that runs has a slot. Entering announces the current epoch in the slot, leaving
// clears it. Memory that was unlinked is retired with the epoch of that moment, and is free once
// every announced epoch is later: whoever could have seen it has left.
//
// The gate. `enter` takes it shared: the announcement, one fence, and a look at the flag. An
// exclusive section raises the flag and waits until no slot is announced, so every earlier batch
// has ended and no later one has begun. The thread is announced from the beginning of the section
// until `leave`, which comes after its end, so what the section retires is not reused while its
// replies are read.
//
// Why the announcement is safe: it is stored before the look at the flag, and a thread that frees
// raises the epoch before it scans the slots, both sequentially consistent. A scan that missed a
// thread's announcement precedes it, so every unlink before that scan is visible to the thread,
// which cannot reach what the scan frees.
//
// Whoever holds one slot may enter another though an exclusive section waits (`enter_also`): else
// it would wait for the section, and the section for it. Such entries are counted, and a section
// whose look at the slots overlapped with one looks again: the slot entered may be one that it had
// seen empty. A later one is not missed: its owner was inside during the whole look, and was seen.
//
// Threads. A slot is used by one thread at a time; everything else may be called by any.
// Limits. 256 slots, or as many as the owner says, up to 16,384. They are made as they are needed,
// and looks go over those that were ever in use.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "base/macros.h"

namespace isotherm {

class EpochDomain {
 public:
  static constexpr uint32_t usual_slots = 256;
  static constexpr uint32_t max_slots = 1 << 14;

  // A batch's place; announced epoch, 0 while outside.
  struct alignas(64) Slot {
    std::atomic<uint64_t> announced{0};
    std::atomic<bool> taken{false};
    // Its owner is inside with another one until this is false again: `enter` is `enter_also` where
    // it would wait.
    bool beside = false;
  };

  // Slots come in blocks of usual_slots.
  explicit EpochDomain(uint32_t slots = usual_slots) : block_count_(slots / usual_slots) {}
  ~EpochDomain() {
    for (const std::atomic<Slot*>& block : blocks_) delete[] block.load();
  }
  EpochDomain(const EpochDomain&) = delete;
  EpochDomain& operator=(const EpochDomain&) = delete;

  // Takes a free slot; null when all are taken. Throws std::bad_alloc.
  Slot* acquire();
  void release(Slot* slot);

  // Not reentrant. Waits while an exclusive section runs.
  ISOTHERM_INLINE void enter(Slot& slot) {
    if (ISOTHERM_UNLIKELY(!try_enter(slot))) enter_when_open(slot);
  }
  // False while an exclusive section runs or waits.
  ISOTHERM_INLINE bool try_enter(Slot& slot) {
    slot.announced.store(epoch_.load(std::memory_order_relaxed), std::memory_order_seq_cst);
    if (ISOTHERM_LIKELY(!exclusive_.load(std::memory_order_seq_cst))) return true;
    step_back(slot);
    return false;
  }
  // For whoever is inside with another slot, which is left only behind this call.
  void enter_also(Slot& slot) {
    slot.announced.store(epoch_.load(std::memory_order_relaxed), std::memory_order_seq_cst);
    entered_also_.fetch_add(1, std::memory_order_seq_cst);
  }
  void leave(Slot& slot) {
    slot.announced.store(0, std::memory_order_seq_cst);
    if (exclusive_.load(std::memory_order_seq_cst)) slot.announced.notify_all();
  }

  // Enters alone: waits until no other thread is inside. The calling thread must not have entered.
  void lock_exclusive(Slot& slot);
  // Lets other threads in again; the calling thread stays inside.
  void unlock_exclusive();
  // Whether a section runs or waits, and its end.
  bool exclusive_wanted() const { return exclusive_.load(std::memory_order_seq_cst); }
  void wait_until_open() const;

  // The epoch to retire with, read after the unlink.
  uint64_t current() const { return epoch_.load(std::memory_order_seq_cst); }
  // Raises the epoch and returns the oldest epoch that a thread may still be in: what was retired
  // with a smaller one is free.
  uint64_t advance();

 private:
  template <class Visit>
  void each_slot(Visit&& visit) const {
    const uint32_t used = used_.load(std::memory_order_seq_cst);
    for (uint32_t first = 0; first < used; first += usual_slots) {
      Slot* const block = blocks_[first / usual_slots].load(std::memory_order_acquire);
      for (uint32_t i = 0; i < std::min(usual_slots, used - first); ++i) visit(block[i]);
    }
  }
  Slot* take_of(uint32_t block);
  void enter_when_open(Slot& slot);
  static void step_back(Slot& slot);

  const uint32_t block_count_;
  std::atomic<uint64_t> epoch_{1};
  std::atomic<bool> exclusive_{false};
  std::atomic<uint64_t> entered_also_{0};
  std::mutex exclusive_mutex_;
  std::mutex blocks_mutex_;        // of whoever makes one
  std::atomic<uint32_t> used_{0};  // no slot from this one on was ever taken
  std::array<std::atomic<Slot*>, max_slots / usual_slots> blocks_{};
};

// Entered for the life of the object.
class EpochGuard {
 public:
  EpochGuard(EpochDomain& domain, EpochDomain::Slot& slot) : domain_(domain), slot_(slot) {
    domain_.enter(slot_);
  }
  ~EpochGuard() { domain_.leave(slot_); }
  EpochGuard(const EpochGuard&) = delete;
  EpochGuard& operator=(const EpochGuard&) = delete;

 private:
  EpochDomain& domain_;
  EpochDomain::Slot& slot_;
};

// A slot for the life of the object. Throws std::runtime_error where none is left.
class TakenSlot {
 public:
  explicit TakenSlot(EpochDomain& domain) : slot(domain.acquire()), domain_(domain) {
    if (slot == nullptr) throw std::runtime_error("too many batches are under way");
  }
  ~TakenSlot() { domain_.release(slot); }
  TakenSlot(const TakenSlot&) = delete;
  TakenSlot& operator=(const TakenSlot&) = delete;

  EpochDomain::Slot* const slot;

 private:
  EpochDomain& domain_;
};

}  // namespace isotherm
