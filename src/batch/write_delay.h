// WriteDelay: writes of a store that a scheduling policy puts off while reads go, for stores whose
// index is on a device.
//
// Rows that write wait for it (executor/awaited.h), with what stands behind them on their keys in
// their batch; all other rows of the batch go on. When the policy sends writes all of them are told
// at once and run again, in rounds that wait for nobody else. Batches under way are concurrent, so
// reads of others may pass a write that waits; whoever needs it done waits for its reply.
//
// Threads. `begin`: any. A thread of its own asks the policy, and ends with it, when nobody waits.
// Sources. Mega-KV, section 5.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/wait_clock.h"
#include "executor/awaited.h"
#include "executor/scheduling_policy.h"

namespace isotherm {

class WriteDelay final : public Awaited {
 public:
  // The clock must outlive it. Throws std::system_error without a thread.
  WriteDelay(std::unique_ptr<SchedulingPolicy> policy, WaitClock& clock)
      : policy_(std::move(policy)), clock_(clock), thread_([this] { run(); }) {}
  ~WriteDelay() {
    {
      const std::lock_guard guard(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  WriteDelay(const WriteDelay&) = delete;
  WriteDelay& operator=(const WriteDelay&) = delete;

  void begin(Waiter& waiter) override {
    const int64_t now = clock_.now_ns();
    {
      const std::lock_guard guard(mutex_);
      if (waiters_.empty()) since_ = now;
      waiters_.push_back(&waiter);
      ++arrived_;
    }
    changed_.notify_one();
  }
  // From now on nobody waits: the store is about to end.
  void hurry() {
    {
      const std::lock_guard guard(mutex_);
      hurries_ = true;
    }
    changed_.notify_one();
  }
  uint64_t waiting() const {
    const std::lock_guard guard(mutex_);
    return waiters_.size();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      if (waiters_.empty()) {
        changed_.wait(lock);
        continue;
      }
      const int64_t now = clock_.now_ns();
      const BatchDecision decision = policy_->decide(describe(now));
      if (hurries_ || decision.writes != 0) {
        tell(lock);
      } else if (decision.again > now) {
        clock_.wait(lock, changed_, decision.again);
      }
    }
  }

  WaitingRows describe(int64_t now) const {
    WaitingRows waiting;
    waiting.now = now;
    waiting.writes = waiters_.size();
    waiting.write_age = now - since_;
    waiting.arrived = arrived_;
    return waiting;
  }

  void tell(std::unique_lock<std::mutex>& lock) {
    told_.swap(waiters_);
    lock.unlock();
    for (Waiter* waiter : told_) waiter->there();
    told_.clear();
    lock.lock();
  }

  const std::unique_ptr<SchedulingPolicy> policy_;
  WaitClock& clock_;

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<Waiter*> waiters_;
  int64_t since_ = 0;  // the first of them
  uint64_t arrived_ = 0;
  bool hurries_ = false;
  bool stopping_ = false;

  std::vector<Waiter*> told_;  // the thread's own
  std::thread thread_;
};

}  // namespace isotherm
