// Pause: CLIENT PAUSE, which holds back commands of all clients until a time or until it is ended;
// and the end of the server, which holds back all of them, whatever CLIENT PAUSE says meanwhile.
//
// A protocol asks before it runs a command. A command that is held stays at the front of its
// connection's input, and the connection waits. Each loop lets its connections go on when it sees
// that the pause is over: at its next tick, or at once if CLIENT UNPAUSE ended the pause.
//
// A pause that begins while another lasts can make it longer and wider, never shorter.
//
// Threads. Any. Requests that another loop has parsed when a pause begins are still run.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>

namespace isotherm::net {

class Pause {
 public:
  enum class Holds : uint8_t { nothing, writes, all };

  // Nothing is held back, whatever the time.
  bool none() const { return holds_.load(std::memory_order_acquire) == Holds::nothing; }
  // What is held back now.
  Holds holds(int64_t now_ms) const {
    const Holds what = holds_.load(std::memory_order_acquire);
    if (what == Holds::nothing) [[likely]]
      return what;
    return now_ms < until_ms_.load(std::memory_order_relaxed) ? what : Holds::nothing;
  }

  void start(Holds what, int64_t until_ms, int64_t now_ms) {
    const std::lock_guard guard(mutex_);
    if (now_ms < asked_until_ms_) {
      what = std::max(what, asked_);
      until_ms = std::max(until_ms, asked_until_ms_);
    }
    ask(what, until_ms);
  }
  void end() {
    const std::lock_guard guard(mutex_);
    ask(Holds::nothing, 0);
  }
  // So that later commands find it out by one load again.
  void end_if_over(int64_t now_ms) {
    const std::lock_guard guard(mutex_);
    if (now_ms >= asked_until_ms_) ask(Holds::nothing, 0);
  }
  // For the end of the server: holds all, or no longer.
  void hold_all(bool holds) {
    const std::lock_guard guard(mutex_);
    holds_all_ = holds;
    ask(asked_, asked_until_ms_);
  }

 private:
  void ask(Holds what, int64_t until_ms) {
    constexpr int64_t for_good = std::numeric_limits<int64_t>::max();
    asked_ = what;
    asked_until_ms_ = until_ms;
    until_ms_.store(holds_all_ ? for_good : until_ms, std::memory_order_relaxed);
    holds_.store(holds_all_ ? Holds::all : what, std::memory_order_release);
  }

  std::mutex mutex_;  // of writers
  Holds asked_ = Holds::nothing;
  int64_t asked_until_ms_ = 0;
  bool holds_all_ = false;
  std::atomic<Holds> holds_{Holds::nothing};
  std::atomic<int64_t> until_ms_{0};
};

}  // namespace isotherm::net
