// Shutdown: the SHUTDOWN command. It asks the owner of the server to end it, and waits until the
// server ends, or until it is known that something could not be saved.
//
// Threads. Any; `owner` is set before the loops start.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace isotherm::net {

class Shutdown {
 public:
  // A snapshot: if there are save points. With `no`, what a tree lacks may be lost, too.
  enum class Saves : uint8_t { at_points, yes, no };
  struct Wish {
    Saves saves = Saves::at_points;
    bool force = false;  // the server ends also where something cannot be written
  };

  // How the owner is told; empty: nobody ends the server.
  std::function<void()> owner;

  // The number by which `has_failed` tells of it.
  uint64_t ask(const Wish& wish) {
    const std::lock_guard guard(mutex_);
    wish_ = wish;
    owner();
    return failures_.load(std::memory_order_relaxed) + 1;
  }
  bool has_failed(uint64_t number) const {
    return failures_.load(std::memory_order_acquire) >= number;
  }

  // For the owner.
  Wish take() {
    const std::lock_guard guard(mutex_);
    return std::exchange(wish_, {});
  }
  void fail() { failures_.fetch_add(1, std::memory_order_release); }

 private:
  std::mutex mutex_;
  Wish wish_;
  std::atomic<uint64_t> failures_{0};
};

}  // namespace isotherm::net
