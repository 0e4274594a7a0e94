// Clock: wall time, which tests set by hand.
//
// Every reader of time (expiry, TTL, INFO) asks a Clock, so a test that holds a ManualClock decides
// what time it is. SystemClock reads the kernel's precise real-time clock (about 25 ns through the
// vDSO): the coarse one is a few milliseconds late, so a client that reads its own clock first
// would be ahead of it. Both may be read by any thread.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

namespace isotherm {

class Clock {
 public:
  virtual ~Clock() = default;
  // Microseconds since the Unix epoch.
  virtual int64_t now_us() const = 0;
  int64_t now_ms() const { return now_us() / 1000; }
};

class SystemClock final : public Clock {
 public:
  int64_t now_us() const override {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1'000'000 + now.tv_nsec / 1000;
  }
};

class ManualClock final : public Clock {
 public:
  explicit ManualClock(int64_t start_ms) : now_(start_ms) {}
  int64_t now_us() const override { return now_.load(std::memory_order_acquire) * 1000; }
  void advance(int64_t ms) { now_.fetch_add(ms, std::memory_order_acq_rel); }

 private:
  std::atomic<int64_t> now_;
};

}  // namespace isotherm
