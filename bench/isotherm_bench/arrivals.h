// Arrivals: when the operations of an open loop are due.
//
// The times are drawn in advance, whatever the system does: an operation that could not be sent in
// time keeps the time it was due at, and its latency counts from there. So a system that stalls
// shows the stall in every operation that fell into it (no coordinated omission).
//
// Threads. One owner; each thread has its own share of the rate.
#pragma once

#include <cmath>
#include <cstdint>

#include "isotherm_bench/random.h"

namespace isotherm::bench {

class Arrivals {
 public:
  // `rate`: operations a second. Poisson arrivals, or evenly spaced ones.
  Arrivals(double rate, bool poisson, uint64_t seed, uint64_t stream)
      : gap_(1e9 / rate), poisson_(poisson), random_(seed, stream) {}

  void begin(int64_t now) {
    next_ = static_cast<double>(now);
    // Threads with even gaps must not all fire together.
    next_ += poisson_ ? draw_gap() : gap_ * random_.unit();
  }
  int64_t next() const { return static_cast<int64_t>(next_); }
  void advance() { next_ += poisson_ ? draw_gap() : gap_; }

 private:
  double draw_gap() { return -std::log(random_.unit_above_zero()) * gap_; }

  double gap_;
  bool poisson_;
  Random random_;
  double next_ = 0;
};

}  // namespace isotherm::bench
