// make_round_policy: the scheduling policy of a store whose index is on a device, from the few
// options that a store has for it (RoundOptions).
//
// A cycle cannot be shorter than a round takes: only one round runs at a time, so the next begins
// when that one has ended, whatever the cycle says. So no cycle is refused for being short, as one
// of a queue is, whose batches would pile up: the policy is told of no costs.
//
// Adaptive: few rows are answered by the host, many by the device (executor/device/rounds.h).
//
// Sources. H-Rocks, section 6; MemcachedGPU, sections 2.1 and 5.3; Mega-KV, section 5; KVCG,
// section 4.
#pragma once

#include <memory>
#include <stdexcept>

#include "batch/make_policy.h"

namespace isotherm {

// The options with defaults filled in. Throws std::invalid_argument for options that cannot work.
inline RoundOptions completed(RoundOptions options) {
  constexpr int64_t longest_wait = 1'000'000'000;
  constexpr int64_t usual_wait = 100'000;
  constexpr uint64_t usual_rows = 512;
  constexpr uint32_t most_write_cycles = 1000;
  const bool periodic = options.policy == Scheduling::periodic;
  if (options.write_cycles == 0 || options.write_cycles > (periodic ? most_write_cycles : 1)) {
    throw std::invalid_argument(
        "write_cycles must be from 1 to 1000 with periodic rounds, and 1 with others");
  }
  if (options.policy == Scheduling::greedy) {
    if (options.rows != 0 || options.wait_ns != 0) {
      throw std::invalid_argument(
          "rows and wait_ns must be 0 with greedy rounds, which wait for nobody");
    }
    return options;
  }
  if (options.rows > RoundOptions::most_rows) {
    throw std::invalid_argument("rows must be at most 2097152");
  }
  const bool adaptive = options.policy == Scheduling::adaptive;
  if (!adaptive && !periodic && options.policy != Scheduling::fixed_size) {
    throw std::invalid_argument("policy must be greedy, fixed, periodic or adaptive");
  }
  if (adaptive && options.wait_ns != 0) {
    throw std::invalid_argument("wait_ns must be 0 with adaptive rounds, which wait for nobody");
  }
  if (options.wait_ns < 0 || options.wait_ns > longest_wait) {
    throw std::invalid_argument("wait_ns must be from 0 to a second");
  }
  if (options.rows == 0) {
    options.rows = periodic ? RoundOptions::most_rows : usual_rows;
  }
  if (options.wait_ns == 0 && !adaptive) options.wait_ns = usual_wait;
  return options;
}

// Throws as `completed`.
inline std::unique_ptr<SchedulingPolicy> make_round_policy(const RoundOptions& options) {
  const RoundOptions its = completed(options);
  SchedulingOptions all;
  all.policy = its.policy;
  all.fixed_size = {its.rows, its.wait_ns};
  all.periodic.cycle_ns = its.wait_ns;
  all.periodic.enough_reads = its.rows;
  all.periodic.write_cycles = its.write_cycles;
  all.periodic.rate = 1;  // no cost is known, so any will do
  all.adaptive.threshold = its.rows;
  all.adaptive.most_threshold = its.rows * all.adaptive.factor;
  return make_policy(all);
}

}  // namespace isotherm
