// WaitClock: the time of threads that wait for others, but not for ever; tests turn it by hand.
//
// A thread that holds a mutex waits on a condition variable until it is notified or a moment has
// come, and then looks at both again. SteadyWaitClock is the monotonic clock, whose waits sleep.
// With a ManualWaitClock a moment comes only by `advance`, so a test decides who has waited too
// long; `waits` tells the test that a thread has looked at the time and sleeps.
//
// Threads. Any. Limits. A condition variable that waits by a ManualWaitClock must outlive the calls
// of `advance` that may wake it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace isotherm {

class WaitClock {
 public:
  virtual ~WaitClock() = default;
  // Nanoseconds since some moment, the same for all.
  virtual int64_t now_ns() const = 0;
  // Sleeps until `changed` is notified or the time is `until_ns`, or for less; `lock` is held
  // before and after.
  virtual void wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                    int64_t until_ns) = 0;
};

class SteadyWaitClock final : public WaitClock {
 public:
  int64_t now_ns() const override {
    using std::chrono::nanoseconds;
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<nanoseconds>(since).count();
  }
  void wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
            int64_t until_ns) override {
    changed.wait_until(lock,
                       std::chrono::steady_clock::time_point(std::chrono::nanoseconds(until_ns)));
  }
};

class ManualWaitClock final : public WaitClock {
 public:
  explicit ManualWaitClock(int64_t start_ns = 0) : now_(start_ns) {}

  int64_t now_ns() const override {
    const std::lock_guard guard(mutex_);
    return now_;
  }
  void wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
            int64_t until_ns) override {
    const Waiter self{lock.mutex(), &changed};
    {
      const std::lock_guard guard(mutex_);
      if (now_ >= until_ns) return;
      waiting_.push_back(self);
      waits_.fetch_add(1, std::memory_order_release);
    }
    changed.wait(lock);
    const std::lock_guard guard(mutex_);
    waiting_.erase(std::find(waiting_.begin(), waiting_.end(), self));
  }

  // Wakes all that wait.
  void advance(int64_t ns) {
    std::vector<Waiter> waiting;
    {
      const std::lock_guard guard(mutex_);
      now_ += ns;
      waiting = waiting_;
    }
    for (const auto& [mutex, changed] : waiting) {
      // A waiter that is listed holds its mutex until it sleeps.
      const std::lock_guard asleep(*mutex);
      changed->notify_all();
    }
  }
  // How often anybody has begun to wait.
  uint64_t waits() const { return waits_.load(std::memory_order_acquire); }

 private:
  using Waiter = std::pair<std::mutex*, std::condition_variable*>;

  mutable std::mutex mutex_;  // taken while a waiter's is held, never the other way round
  int64_t now_;
  std::vector<Waiter> waiting_;
  std::atomic<uint64_t> waits_{0};
};

}  // namespace isotherm
