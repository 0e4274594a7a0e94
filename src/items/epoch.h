// Epochs: memory is reused only when no batch can still read it; and the gate for commands over
// several keys.
//
// Every thread that runs batches has a slot. Entering announces the current epoch in the slot,
// leaving clears it. Memory that was unlinked is retired with the epoch of that moment, and is free
// once every announced epoch is later: all threads that could have seen it have left.
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
// Threads. One slot belongs to one thread; everything else may be called by any.
// Limits. 256 slots.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace isotherm {

class EpochDomain {
 public:
  static constexpr uint32_t max_slots = 256;

  // A thread's place; announced epoch, 0 while outside.
  struct alignas(64) Slot {
    std::atomic<uint64_t> announced{0};
    std::atomic<bool> taken{false};
  };

  EpochDomain() = default;
  EpochDomain(const EpochDomain&) = delete;
  EpochDomain& operator=(const EpochDomain&) = delete;

  // Takes a free slot; null when all are taken.
  Slot* acquire();
  void release(Slot* slot);

  // Not reentrant. Waits while an exclusive section runs.
  void enter(Slot& slot) {
    for (;;) {
      slot.announced.store(epoch_.load(std::memory_order_relaxed), std::memory_order_seq_cst);
      if (!exclusive_.load(std::memory_order_seq_cst)) return;
      slot.announced.store(0, std::memory_order_seq_cst);
      slot.announced.notify_all();
      exclusive_.wait(true, std::memory_order_seq_cst);
    }
  }
  void leave(Slot& slot) {
    slot.announced.store(0, std::memory_order_seq_cst);
    if (exclusive_.load(std::memory_order_seq_cst)) slot.announced.notify_all();
  }

  // Enters alone: waits until no other thread is inside. The calling thread must not have entered.
  void lock_exclusive(Slot& slot);
  // Lets other threads in again; the calling thread stays inside.
  void unlock_exclusive();

  // The epoch to retire with, read after the unlink.
  uint64_t current() const { return epoch_.load(std::memory_order_seq_cst); }
  // Raises the epoch and returns the oldest epoch that a thread may still be in: what was retired
  // with a smaller one is free.
  uint64_t advance();

 private:
  std::atomic<uint64_t> epoch_{1};
  std::atomic<bool> exclusive_{false};
  std::mutex exclusive_mutex_;
  Slot slots_[max_slots];
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

}  // namespace isotherm
