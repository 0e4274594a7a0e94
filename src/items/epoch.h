// Epochs: memory is reused only when no batch can still read it.
//
// Every batch that runs has a slot. Entering announces the current epoch in the slot, leaving
// clears it. Memory that was unlinked is retired with the epoch of that moment, and is free once
// every announced epoch is later: whoever could have seen it has left.
//
// Why the announcement is safe: whoever frees raises the epoch before it scans the slots, and both
// are sequentially consistent, as the announcement is. A scan that missed a thread's announcement
// precedes it, so every unlink before that scan is visible to the thread, which cannot reach what
// the scan frees.
//
// Work. The announcement may say that the thread now works on keys that it names to nobody, until
// `rest`. It is the same store, so it costs nothing; whoever needs such work to have ended makes
// itself seen first, and then waits for every slot that works (executor/key_gate.h). Each work has
// a number, so nobody waits for one that begins later: that one has seen who waits.
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

  // A batch's place. Announced: the epoch, 0 while outside; above it the work's number, and the
  // highest bit while it works.
  struct alignas(64) Slot {
    std::atomic<uint64_t> announced{0};
    std::atomic<bool> taken{false};
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

  // Not reentrant.
  ISOTHERM_INLINE void enter(Slot& slot) {
    slot.announced.store(number_of(slot) | epoch_.load(std::memory_order_relaxed),
                         std::memory_order_seq_cst);
  }
  // The same, and works.
  ISOTHERM_INLINE void enter_to_work(Slot& slot) {
    slot.announced.store(next_number(slot) | epoch_.load(std::memory_order_relaxed) | works,
                         std::memory_order_seq_cst);
  }
  // For a slot that has entered: it works from now on.
  static void work(Slot& slot) {
    const uint64_t epoch = slot.announced.load(std::memory_order_relaxed) & epochs;
    slot.announced.store(next_number(slot) | epoch | works, std::memory_order_seq_cst);
  }
  ISOTHERM_INLINE static void rest(Slot& slot) {
    slot.announced.store(slot.announced.load(std::memory_order_relaxed) & ~works,
                         std::memory_order_release);
  }
  static void leave(Slot& slot) {
    slot.announced.store(number_of(slot), std::memory_order_release);
  }

  // Calls pause() again and again until all work has ended that was under way before.
  template <class Pause>
  void wait_for_work(Pause&& pause) const {
    each_slot([&](const Slot& slot) {
      const uint64_t before = slot.announced.load(std::memory_order_seq_cst);
      if ((before & works) == 0) return;
      const auto goes_on = [&] {
        const uint64_t now = slot.announced.load(std::memory_order_seq_cst);
        return (now & (works | numbers)) == (before & (works | numbers));
      };
      while (goes_on()) pause();
    });
  }
  // For whoever has the slot.
  static bool is_outside(const Slot& slot) {
    return (slot.announced.load(std::memory_order_relaxed) & epochs) == 0;
  }
  static bool is_at_work(const Slot& slot) {
    return (slot.announced.load(std::memory_order_seq_cst) & works) != 0;
  }

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

  static constexpr uint64_t works = uint64_t{1} << 63;
  static constexpr uint64_t one_work = uint64_t{1} << 48;
  static constexpr uint64_t numbers = works - one_work;
  static constexpr uint64_t epochs = one_work - 1;

  // For whoever has the slot.
  static uint64_t number_of(const Slot& slot) {
    return slot.announced.load(std::memory_order_relaxed) & numbers;
  }
  static uint64_t next_number(const Slot& slot) {
    return (slot.announced.load(std::memory_order_relaxed) + one_work) & numbers;
  }

  const uint32_t block_count_;
  std::atomic<uint64_t> epoch_{1};
  std::mutex blocks_mutex_;        // of whoever makes one
  std::atomic<uint32_t> used_{0};  // no slot from this one on was ever taken
  std::array<std::atomic<Slot*>, max_slots / usual_slots> blocks_{};
};

// Entered for the life of the object.
class EpochGuard {
 public:
  EpochGuard(EpochDomain& domain, EpochDomain::Slot& slot) : slot_(slot) { domain.enter(slot_); }
  ~EpochGuard() { EpochDomain::leave(slot_); }
  EpochGuard(const EpochGuard&) = delete;
  EpochGuard& operator=(const EpochGuard&) = delete;

 protected:
  // For a class that enters the slot in another way.
  explicit EpochGuard(EpochDomain::Slot& slot) : slot_(slot) {}

  EpochDomain::Slot& slot_;
};

// The same, at work.
class WorkGuard : public EpochGuard {
 public:
  WorkGuard(EpochDomain& domain, EpochDomain::Slot& slot) : EpochGuard(slot) {
    domain.enter_to_work(slot_);
  }
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
