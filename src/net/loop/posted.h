// Posted: functions that other threads hand to the thread of a loop, which runs them in order.
//
// Errors. Who adds one waits for memory. A function that throws std::bad_alloc has left everything
// in order, and does not run again.
//
// Threads. Any may call `add`; the loop's thread calls `run`. A function that runs may add others,
// which the next `run` finds.
#pragma once

#include <functional>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/wait_for_memory.h"

namespace isotherm::net {

class Posted {
 public:
  void add(std::function<void()> function) {
    wait_for_memory([&] {
      const std::lock_guard guard(mutex_);
      waiting_.push_back(std::move(function));
    });
  }

  void run() {
    std::vector<std::function<void()>> functions;
    {
      const std::lock_guard guard(mutex_);
      functions.swap(waiting_);
    }
    for (const auto& function : functions) {
      try {
        function();
      } catch (const std::bad_alloc&) {
        // The others run all the same.
      }
    }
  }

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace isotherm::net
