// DirectWatch: a thread that looks at gets under way on a device (gpu/items/direct_gets.h), which
// others have posted, and tells who waits for them when their replies are there.
//
//   watch ─▶ news ─▶ (the thread) under way ─▶ done: the waiter is told
// It launches them, too, so that nobody else has to wait for the driver. It looks without a pause
// while any are under way, and sleeps else.
//
// Threads. Any call `watch`. Limits. Where the system gives no thread, `works` says so, and nothing
// may be watched. Gets and waiters stay until the waiter was told.
#pragma once

#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "executor/awaited.h"
#include "gpu/items/direct_gets.h"

namespace isotherm {

class DirectWatch {
 public:
  // `serves`: there is something to watch at all.
  explicit DirectWatch(bool serves);
  // Behind the last waiter's news.
  ~DirectWatch();
  DirectWatch(const DirectWatch&) = delete;
  DirectWatch& operator=(const DirectWatch&) = delete;

  bool works() const { return !threads_.empty(); }
  // Throws std::bad_alloc, and then the waiter is not told.
  void watch(DirectGets& gets, Awaited::Waiter& waiter);

 private:
  struct One {
    DirectGets* gets;
    Awaited::Waiter* waiter;
  };

  void work();
  bool take_news();

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::list<One> news_;
  bool stops_ = false;
  std::atomic<bool> has_news_{false};  // also asked without it
  std::list<One> under_way_;           // the thread's
  std::vector<std::thread> threads_;
};

}  // namespace isotherm
