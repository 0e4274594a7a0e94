// Posted: functions that other threads hand to the thread of a loop, which runs them in order.
//
// Threads. Any may call `add`; the loop's thread calls `run`. A function that runs may add others,
// which the next `run` finds.
#pragma once

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace isotherm::net {

class Posted {
 public:
  void add(std::function<void()> function) {
    const std::lock_guard guard(mutex_);
    waiting_.push_back(std::move(function));
  }

  void run() {
    std::vector<std::function<void()>> functions;
    {
      const std::lock_guard guard(mutex_);
      functions.swap(waiting_);
    }
    for (const auto& function : functions) function();
  }

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace isotherm::net
