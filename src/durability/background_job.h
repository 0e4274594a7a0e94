// BackgroundJob: work that a thread of its own does when others ask for it, or by itself: who asks,
// whether it is under way, and what became of it. The journal is written anew so (BGREWRITEAOF),
// and snapshots are (durability/save_job.h).
//
// Times are in seconds, by whatever clock those who begin and end it have.
// Threads. Any.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace isotherm {

class BackgroundJob {
 public:
  // The number of the one that will be done; 0: one is under way, or was asked for. It counts as
  // under way from now on: who asks and then looks must not see what was before.
  uint64_t ask() {
    const std::lock_guard guard(mutex_);
    return asked_ || in_progress() ? 0 : ask_locked();
  }
  bool has_ended(uint64_t number) const { return ended_.load(std::memory_order_acquire) >= number; }
  // Asks, when none is under way any more, and waits for the end; whether it has worked.
  bool do_now() {
    std::unique_lock lock(mutex_);
    end_.wait(lock, [this] { return !asked_ && !in_progress(); });
    const uint64_t number = ask_locked();
    end_.wait(lock, [&] { return has_ended(number); });
    return !failed();
  }
  void stop() {
    const std::lock_guard guard(mutex_);
    stops_.store(true, std::memory_order_relaxed);
    wake_.notify_all();
  }
  bool stops() const { return stops_.load(std::memory_order_relaxed); }

  // For the one who does it. Whether somebody has asked; no later than `longest`.
  bool wait(std::chrono::milliseconds longest) {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, longest, [this] { return asked_ || stops(); });
    return asked_ && !stops();
  }
  void begin(int64_t now_s) {
    began_s_.store(now_s, std::memory_order_relaxed);
    in_progress_.store(true, std::memory_order_release);
  }
  void end(bool worked, int64_t now_s) {
    const std::lock_guard guard(mutex_);
    failed_.store(!worked, std::memory_order_relaxed);
    last_seconds_.store(now_s - began_s_.exchange(0), std::memory_order_relaxed);
    if (worked) times_.fetch_add(1, std::memory_order_relaxed);
    asked_ = false;
    in_progress_.store(false, std::memory_order_relaxed);
    ended_.fetch_add(1, std::memory_order_release);
    end_.notify_all();
  }

  bool in_progress() const { return in_progress_.load(std::memory_order_acquire); }
  // The last did not work.
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  // How often it has worked.
  uint64_t times() const { return times_.load(std::memory_order_relaxed); }
  // How long the last took; -1: there was none.
  int64_t last_seconds() const { return last_seconds_.load(std::memory_order_relaxed); }
  // Since the one under way began; -1: there is none.
  int64_t seconds(int64_t now_s) const {
    const int64_t began_s = began_s_.load(std::memory_order_relaxed);
    if (!in_progress()) return -1;
    return began_s != 0 ? now_s - began_s : 0;
  }

 private:
  uint64_t ask_locked() {
    asked_ = true;
    in_progress_.store(true, std::memory_order_relaxed);
    wake_.notify_all();
    return ended_.load(std::memory_order_relaxed) + 1;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable end_;
  bool asked_ = false;
  std::atomic<bool> stops_{false};
  std::atomic<bool> in_progress_{false};
  std::atomic<bool> failed_{false};
  std::atomic<uint64_t> ended_{0};
  std::atomic<uint64_t> times_{0};
  std::atomic<int64_t> began_s_{0};  // 0: it was asked for, and has not begun
  std::atomic<int64_t> last_seconds_{-1};
};

}  // namespace isotherm
