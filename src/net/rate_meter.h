// RateMeter: by how much a sum grows in a second, as the mean over the last sixteen samples. Rates:
// the meters that INFO shows, and the peak of memory, which is sampled together with them.
//
// Threads. One thread samples, any may read. Each sample is an atomic, so a reader may see some
// samples of the step before.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/raise_to.h"

namespace isotherm::net {

class RateMeter {
 public:
  // `sum` now, and the seconds since the last sample.
  void sample(uint64_t sum, double seconds) {
    const uint64_t grown = sum - last_;
    last_ = sum;
    samples_[next_++ % samples_.size()].store(
        static_cast<uint64_t>(static_cast<double>(grown) / seconds), std::memory_order_relaxed);
  }
  uint64_t a_second() const {
    uint64_t all = 0;
    for (const auto& sample : samples_) all += sample.load(std::memory_order_relaxed);
    return all / samples_.size();
  }

 private:
  uint64_t last_ = 0;
  size_t next_ = 0;
  std::array<std::atomic<uint64_t>, 16> samples_{};
};

struct Rates {
  RateMeter commands, bytes_in, bytes_out;
  std::atomic<uint64_t> memory_peak{0};

  void sample(uint64_t all_commands, uint64_t all_in, uint64_t all_out, uint64_t memory) {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    raise_peak(memory);
    if (seconds <= 0) return;
    last_ = now;
    commands.sample(all_commands, seconds);
    bytes_in.sample(all_in, seconds);
    bytes_out.sample(all_out, seconds);
  }
  // Returns the peak with `memory` in it.
  uint64_t raise_peak(uint64_t memory) {
    return std::max(memory, raise_to(memory_peak, memory, std::memory_order_seq_cst));
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace isotherm::net
