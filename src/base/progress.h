// Progress: a number that only grows, and that threads wait for.
//
// The phases of a round take microseconds, so a thread looks a while before it sleeps.
//
// Threads. Any of them may call any of its functions.
#pragma once

#include <atomic>
#include <cstdint>

namespace isotherm {

class Progress {
 public:
  void set(uint32_t to) {
    at_.store(to, std::memory_order_release);
    at_.notify_all();
  }
  void add_one() {
    at_.fetch_add(1, std::memory_order_acq_rel);
    at_.notify_all();
  }
  bool reached(uint32_t wanted) const { return at_.load(std::memory_order_acquire) >= wanted; }
  uint32_t wait_for(uint32_t wanted) const {
    constexpr int looks = 2'000;
    for (int i = 0; i < looks; ++i) {
      const uint32_t at = at_.load(std::memory_order_acquire);
      if (at >= wanted) return at;
      __builtin_ia32_pause();
    }
    for (;;) {
      const uint32_t at = at_.load(std::memory_order_acquire);
      if (at >= wanted) return at;
      at_.wait(at, std::memory_order_acquire);
    }
  }

 private:
  std::atomic<uint32_t> at_{0};
};

}  // namespace isotherm
