// Clock: wall time in milliseconds, which tests set by hand.
//
// Every reader of time (expiry, TTL, INFO) asks a Clock, so a test that holds a ManualClock decides
// what time it is. SystemClock reads the kernel's coarse real-time clock (a few nanoseconds through
// the vDSO). Both may be read by any thread.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

namespace isotherm {

class Clock {
 public:
  virtual ~Clock() = default;
  // Milliseconds since the Unix epoch.
  virtual int64_t now_ms() const = 0;
};

class SystemClock final : public Clock {
 public:
  int64_t now_ms() const override {
    timespec now{};
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
  }
};

class ManualClock final : public Clock {
 public:
  explicit ManualClock(int64_t start_ms) : now_(start_ms) {}
  int64_t now_ms() const override { return now_.load(std::memory_order_acquire); }
  void advance(int64_t ms) { now_.fetch_add(ms, std::memory_order_acq_rel); }

 private:
  std::atomic<int64_t> now_;
};

}  // namespace isotherm
