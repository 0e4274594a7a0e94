// Doorbell: lets one thread sleep until others have work for it.
//
// The sleeper announces itself, looks for work once more, and sleeps. A thread that brings work
// leaves it first and then looks whether somebody sleeps. Both orders are sequentially consistent,
// so at least one of the two sees the other, and no work is missed. A ring while nobody sleeps
// costs one load.
//
// Threads. One sleeper, any ringers. Limits. Linux (a futex: a sleep with a deadline that does not
// depend on the wall clock).
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace isotherm {

class Doorbell {
 public:
  // Call it after work was left where `has_work` below sees it.
  void ring() {
    if (sleeping_.load(std::memory_order_seq_cst) == 0) return;
    if (sleeping_.exchange(0, std::memory_order_seq_cst) != 0) wake();
  }

  // Sleeps for at most `most_ns`, or until a ring; returns at once if there is work.
  template <class HasWork>
  void sleep(int64_t most_ns, HasWork&& has_work) {
    sleeping_.store(1, std::memory_order_seq_cst);
    if (!has_work()) wait(most_ns);
    sleeping_.store(0, std::memory_order_seq_cst);
  }

 private:
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

  void wake() { syscall(SYS_futex, &sleeping_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }
  void wait(int64_t most_ns) {
    constexpr int64_t second = 1'000'000'000;
    constexpr int64_t longest = 3600 * second;  // for ever needs no deadline either
    const int64_t time = most_ns < longest ? most_ns : longest;
    if (time <= 0) return;
    timespec left{};
    left.tv_sec = time / second;
    left.tv_nsec = time % second;
    // A signal or a late value ends it early: the caller looks again anyway.
    syscall(SYS_futex, &sleeping_, FUTEX_WAIT_PRIVATE, 1, &left, nullptr, 0);
  }

  std::atomic<uint32_t> sleeping_{0};
};

}  // namespace isotherm
