// RewriteWish: who wants a journal to be written anew, and what became of it; as BGREWRITEAOF asks
// and INFO shows.
//
// Threads. Any.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace isotherm {

class RewriteWish {
 public:
  // False: it is under way, or was asked for. It counts as under way from now on: who asks and then
  // looks must not see what was before.
  bool ask() {
    const std::lock_guard guard(mutex_);
    if (asked_ || in_progress()) return false;
    asked_ = true;
    begin();
    wake_.notify_one();
    return true;
  }
  void stop() {
    const std::lock_guard guard(mutex_);
    stops_.store(true, std::memory_order_relaxed);
    wake_.notify_one();
  }
  bool stops() const { return stops_.load(std::memory_order_relaxed); }

  // For the one who rewrites. Whether somebody has asked; no later than `longest`.
  bool wait(std::chrono::milliseconds longest) {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, longest, [this] { return asked_ || stops(); });
    if (!asked_ || stops()) return false;
    asked_ = false;
    return true;
  }
  void begin() {
    began_seconds_.store(since_epoch(), std::memory_order_relaxed);
    in_progress_.store(true, std::memory_order_release);
  }
  void end(bool worked) {
    const std::lock_guard guard(mutex_);
    failed_.store(!worked, std::memory_order_relaxed);
    last_seconds_.store(since_epoch() - began_seconds_.load(), std::memory_order_relaxed);
    if (worked) rewrites_.fetch_add(1, std::memory_order_relaxed);
    // Somebody may have asked just before one began by itself: that one is still to come.
    in_progress_.store(asked_, std::memory_order_release);
  }

  bool in_progress() const { return in_progress_.load(std::memory_order_acquire); }
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  uint64_t rewrites() const { return rewrites_.load(std::memory_order_relaxed); }
  // -1: there was none.
  int64_t last_seconds() const { return last_seconds_.load(std::memory_order_relaxed); }
  int64_t seconds() const { return in_progress() ? since_epoch() - began_seconds_.load() : -1; }

 private:
  using Clock = std::chrono::steady_clock;
  static int64_t since_epoch() {
    return std::chrono::duration_cast<std::chrono::seconds>(Clock::now().time_since_epoch())
        .count();
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  bool asked_ = false;
  std::atomic<bool> stops_{false};
  std::atomic<bool> in_progress_{false};
  std::atomic<bool> failed_{false};
  std::atomic<uint64_t> rewrites_{0};
  std::atomic<int64_t> began_seconds_{0};
  std::atomic<int64_t> last_seconds_{-1};
};

}  // namespace isotherm
