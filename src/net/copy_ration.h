// CopyRation: how many requests of a turn may copy what is stored.
//
// Values are never changed where they lie (items/item.h): SETBIT, APPEND, COPY and the like store a
// changed copy, and the old one stays in memory until its batch is cleared. So a pipeline of small
// requests about one long value could take many times its memory. Therefore a loop runs only so
// many of them in a turn that their copies take about bytes_a_turn. It estimates the length of a
// copy from those seen so far: a longer one counts at once, and is forgotten slowly. A connection
// that finds the ration used up may still place the request that it has begun, and goes on in the
// next turn. Values of usual length never reach the limit.
//
// Threads. Belongs to a loop.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace isotherm::net {

class CopyRation {
 public:
  static constexpr uint64_t bytes_a_turn = 16 << 20;

  // One more request that copies; false: no other ones in this turn.
  bool take() { return ++taken_ < allowed_; }
  uint64_t taken() const { return taken_; }

  // Copies that the store does not know for ones. Any thread.
  void note(uint64_t bytes) { noted_.fetch_add(bytes, std::memory_order_relaxed); }

  // Ends a turn, in which the store has copied so many bytes.
  void learn(uint64_t copied) {
    if (taken_ == 0) return;
    const uint64_t noted = noted_.exchange(0, std::memory_order_relaxed);
    expected_ = std::max((copied + noted) / taken_, expected_ - (expected_ + 7) / 8);
    allowed_ = bytes_a_turn / std::max<uint64_t>(expected_, 1);
    taken_ = 0;
  }

 private:
  uint64_t taken_ = 0;
  std::atomic<uint64_t> noted_{0};
  uint64_t expected_ = 2 << 20;  // bytes of a copy; until some were seen
  uint64_t allowed_ = bytes_a_turn / (2 << 20);
};

}  // namespace isotherm::net
