// RoundSchedule: how long the leader of a round (executor/device/rounds.h) waits for more members.
//
//   greedy      not at all
//   fixed size  until the round has its rows, or for so long since its first member joined
//   periodic    until a cycle has passed since the round before began, or the round has its rows
// More rows in a round cost a thread its wait and save all the fixed part of what a round takes:
// keys to the device, a lookup, changes back.
//
// A cycle cannot be shorter than a round takes: only one round runs at a time, so the next begins
// when that one has ended, whatever the cycle says. So no cycle is refused for being short, as one
// of a queue is (batch/periodic_policy.h), whose batches would pile up. After a pause nobody waits:
// the cycle of the last round is over. Writes are not put off by cycles of their own, since the
// thread that brought them waits for the answer.
//
// There is no adaptive schedule: what it decides for a queue, the path by how much waits, is
// decided in each round by its size (gpu/device_root_table.h).
//
// Pure logic: the time is an argument, in nanoseconds. Threads. Any, it never changes.
// Sources. MemcachedGPU, sections 2.1 and 5.3; Mega-KV, section 5; KVCG, section 4.
#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>

#include "isotherm/scheduling.h"

namespace isotherm {

class RoundSchedule {
 public:
  static constexpr uint64_t most_rows = 1 << 21;  // of a round
  // The beginning of the round before where there was none.
  static constexpr int64_t never = std::numeric_limits<int64_t>::min();

  // Throws std::invalid_argument for options that cannot work.
  explicit RoundSchedule(const RoundOptions& options = {}) : options_(completed(options)) {}

  bool waits() const { return options_.policy != Scheduling::greedy; }
  // What is in use, defaults filled in.
  const RoundOptions& options() const { return options_; }

  bool enough(uint64_t rows) const { return rows >= options_.rows; }
  // When a round begins at the latest that was opened `now`, where the one before began at `began`.
  int64_t latest(int64_t now, int64_t began) const {
    if (options_.policy == Scheduling::fixed_size) return now + options_.wait_ns;
    return began == never ? now : began + options_.wait_ns;
  }

 private:
  static constexpr int64_t longest_wait = 1'000'000'000;
  static constexpr int64_t usual_wait = 100'000;
  static constexpr uint64_t usual_rows = 512;

  static RoundOptions completed(RoundOptions options) {
    if (options.policy == Scheduling::greedy) {
      if (options.rows != 0 || options.wait_ns != 0) {
        throw std::invalid_argument("greedy rounds wait for nobody: they take no size and no wait");
      }
      return options;
    }
    if (options.policy != Scheduling::fixed_size && options.policy != Scheduling::periodic) {
      throw std::invalid_argument(
          "rounds are greedy, fixed or periodic: their path to the GPU follows their size anyway");
    }
    if (options.rows > most_rows) {
      throw std::invalid_argument("a round has at most 2097152 requests");
    }
    if (options.wait_ns < 0 || options.wait_ns > longest_wait) {
      throw std::invalid_argument("a round waits for a second at most");
    }
    if (options.rows == 0) {
      options.rows = options.policy == Scheduling::fixed_size ? usual_rows : most_rows;
    }
    if (options.wait_ns == 0) options.wait_ns = usual_wait;
    return options;
  }

  RoundOptions options_;
};

// What rounds did so far.
struct RoundStats {
  uint64_t rounds = 0;
  uint64_t rows = 0;
  uint64_t timeouts = 0;  // that began since the wait was over
};

}  // namespace isotherm
