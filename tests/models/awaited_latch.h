// AwaitedLatch: something that rows wait for (executor/awaited.h) until a test lets them go.
//
// Threads. Any.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "executor/awaited.h"

namespace isotherm {

class AwaitedLatch : public Awaited {
 public:
  void begin(Waiter& waiter) override {
    {
      const std::lock_guard guard(mutex_);
      if (!open_) return waiters_.push_back(&waiter);
    }
    waiter.there();
  }
  // Those who wait now.
  void let_go() { tell(false); }
  // And from now on all, until it is closed.
  void open() { tell(true); }
  void close() {
    const std::lock_guard guard(mutex_);
    open_ = false;
  }
  bool is_open() {
    const std::lock_guard guard(mutex_);
    return open_;
  }
  size_t waiters() {
    const std::lock_guard guard(mutex_);
    return waiters_.size();
  }

 private:
  void tell(bool opens) {
    std::vector<Waiter*> told;
    {
      const std::lock_guard guard(mutex_);
      open_ = opens;
      told.swap(waiters_);
    }
    for (Waiter* waiter : told) waiter->there();
  }

  std::mutex mutex_;
  bool open_ = false;
  std::vector<Waiter*> waiters_;
};

}  // namespace isotherm
