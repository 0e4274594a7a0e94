// FlushTime: when a delayed flush_all is due. What all memcached connections of a server share.
//
// There is one time for the whole server: each flush_all replaces it, and one without delay thereby
// cancels a delayed one. Whoever finds it due takes it and flushes database 0; the time is looked
// at before the requests of any connection, and somewhat later by each loop's timer.
//
// Threads. Any thread may set and take; exactly one takes a time that is due.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

namespace isotherm::net {

class FlushTime {
 public:
  static constexpr int64_t at_once = 0;
  static constexpr int64_t never = std::numeric_limits<int64_t>::max();

  void set(int64_t time_ms) { time_ms_.store(time_ms, std::memory_order_release); }

  bool is_set() const { return time_ms_.load(std::memory_order_relaxed) != never; }
  bool due(int64_t now_ms) const { return time_ms_.load(std::memory_order_relaxed) <= now_ms; }
  // True for the one caller who is to flush now.
  bool take_due(int64_t now_ms) {
    int64_t due = time_ms_.load(std::memory_order_relaxed);
    while (due <= now_ms) {
      if (time_ms_.compare_exchange_weak(due, never, std::memory_order_acq_rel)) return true;
    }
    return false;
  }

 private:
  std::atomic<int64_t> time_ms_{never};
};

}  // namespace isotherm::net
