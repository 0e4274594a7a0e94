// ShortLock: a lock for a few memory accesses: who finds it taken looks again, and lets others run
// after some looks, so that nobody is put to sleep and woken for a wait that is shorter than that.
//
// Threads. Any; not recursive, and not fair. Works with std::lock_guard.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/macros.h"

namespace isotherm {

class ShortLock {
 public:
  ISOTHERM_INLINE void lock() {
    if (ISOTHERM_UNLIKELY(lock_.exchange(1, std::memory_order_acquire) != 0)) wait(lock_);
  }
  bool try_lock() {
    return lock_.load(std::memory_order_relaxed) == 0 &&
           lock_.exchange(1, std::memory_order_acquire) == 0;
  }
  ISOTHERM_INLINE void unlock() { lock_.store(0, std::memory_order_release); }

  // Takes a lock that is not 0 now.
  static void wait(std::atomic<uint8_t>& lock) {
    constexpr int looks_before_yield = 64;
    int looks = 0;
    do {
      while (lock.load(std::memory_order_relaxed) != 0) {
        if (++looks < looks_before_yield) {
          __builtin_ia32_pause();
        } else {
          std::this_thread::yield();
        }
      }
    } while (lock.exchange(1, std::memory_order_acquire) != 0);
  }

 private:
  std::atomic<uint8_t> lock_{0};
};

}  // namespace isotherm
