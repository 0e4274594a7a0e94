// Standstill: whether it is time to give up what others are to bring, since it comes no nearer.
//
// Who waits may lose its core meanwhile, for longer than it would wait. What others have brought by
// then is there, and it has not seen that: so it looks once more when the time is over.
//
// Threads. Belongs to one.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <thread>
#include <utility>

namespace isotherm {

class Standstill {
 public:
  using Clock = std::chrono::steady_clock;

  // `height` rises as what is waited for comes nearer. Where nobody holds that back, only tries
  // count.
  bool lasts(int64_t height, bool held_back, std::chrono::milliseconds longest,
             Clock::time_point now = Clock::now()) {
    if (height > highest_) {
      highest_ = height;
      since_ = now;
      tries_ = 0;
      is_over_ = false;
      return false;
    }
    if (!held_back) return ++tries_ > most_vain_tries;
    // It sleeps instead of yielding: on a machine with more threads than processors a yield takes
    // as long as the time slices of all others.
    std::this_thread::sleep_for(between_looks);
    return now - since_ > longest && std::exchange(is_over_, true);
  }

  // Where it was given up at that height before: it is tried once more, and goes on if that helps.
  void was_given_up_at(int64_t height, Clock::time_point now = Clock::now()) {
    highest_ = height;
    since_ = now;
    tries_ = most_vain_tries;
  }

  static constexpr uint32_t most_vain_tries = 32;
  static constexpr std::chrono::microseconds between_looks{20};

 private:
  int64_t highest_ = std::numeric_limits<int64_t>::min();
  uint32_t tries_ = 0;
  bool is_over_ = false;
  Clock::time_point since_;
};

}  // namespace isotherm
