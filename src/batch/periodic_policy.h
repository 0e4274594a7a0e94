// PeriodicPolicy: reads go at the end of every cycle C, writes at the end of every n-th.
//
//   time    0        C        2C       3C       4C
//   reads   |gather  |answer  |
//                    |gather  |answer  |
//   writes  |gather           |apply ...        |        (n = 2)
//
// A read that arrives in one cycle is sent at its end and answered within the next two, so within
// 3 C, if the device keeps up: of any two neighbouring cycles one may have to apply writes, so the
// time of two batches of reads and of one of writes must fit into 2 C (with n = 1 the time of one
// of each into C). With times fitted as fixed + row × rows that bounds C from below, and above a
// certain rate there is no C at all; both are refused.
//
// Cycles lie on a grid that begins with the first call of `decide`. Rows that arrived before the
// last line of the grid go now. So after idle times, or when `decide` is called late, no cycle is
// made up for. Where a number of reads is given that is enough, so many do not wait for the end of
// their cycle.
//
// Threads. One. Limits. If only reads are expected, the bound counts on no batch of writes. Reads
// that join the writes, because one of these may be on their key, wait as long as the writes.
// Sources. Mega-KV, section 5 (Eq. 1 and 2).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "executor/scheduling_policy.h"
#include "isotherm/scheduling.h"

namespace isotherm {

class PeriodicPolicy final : public SchedulingPolicy {
 public:
  // Throws std::invalid_argument for a cycle below the bound, or a rate without one.
  explicit PeriodicPolicy(const PeriodicOptions& options)
      : cycle_(cycle_of(options)),
        write_cycle_(cycle_ * options.write_cycles),
        enough_(options.enough_reads) {}

  int64_t cycle() const { return cycle_; }

  // The least cycle in which the device keeps up, in nanoseconds.
  static double least_cycle(const PeriodicOptions& options) {
    check(options);
    const double rows_per_ns = options.rate / 1e9;
    const double writes = options.read_share < 1 ? 1 : 0;
    const double n = options.write_cycles;
    // How many cycles the sum spans: two, or one.
    const double spans = n > 1 ? 2 : 1;
    const double fixed = spans * options.read_cost.fixed_ns + writes * options.write_cost.fixed_ns;
    const double busy = spans * options.read_cost.row_ns * options.read_share * rows_per_ns +
                        n * options.write_cost.row_ns * (1 - options.read_share) * rows_per_ns;
    if (busy >= spans) {
      throw std::invalid_argument("no cycle suffices for " + text(options.rate) +
                                  " rows a second: the device would be busy " +
                                  text(100 * busy / spans) + " % of the time with rows alone");
    }
    return fixed / (spans - busy);
  }

  BatchDecision decide(const WaitingRows& waiting) override {
    if (begin_ == unset) begin_ = waiting.now;
    BatchDecision decision;
    if (waiting.reads != 0) {
      const bool goes = (enough_ != 0 && waiting.reads >= enough_) ||
                        due(cycle_, waiting.now, waiting.read_age, decision.again);
      decision.reads = goes ? waiting.reads : 0;
    }
    if (waiting.writes != 0) {
      decision.writes =
          due(write_cycle_, waiting.now, waiting.write_age, decision.again) ? waiting.writes : 0;
    }
    return decision;
  }

 private:
  static constexpr int64_t unset = BatchDecision::never;

  static std::string text(double number) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.6g", number);
    return digits;
  }

  static void check(const PeriodicOptions& options) {
    const auto bad = [](double number) { return !std::isfinite(number) || number < 0; };
    if (options.write_cycles == 0 || options.write_cycles > most_write_cycles) {
      throw std::invalid_argument("writes must go every 1 to 1000 cycles");
    }
    if (bad(options.rate) || options.rate == 0) {
      throw std::invalid_argument("periodic scheduling needs the rate to expect, above 0");
    }
    if (bad(options.read_share) || options.read_share > 1) {
      throw std::invalid_argument("the share of reads must be between 0 and 1");
    }
    if (bad(options.read_cost.fixed_ns) || bad(options.read_cost.row_ns) ||
        bad(options.write_cost.fixed_ns) || bad(options.write_cost.row_ns)) {
      throw std::invalid_argument("costs must be 0 or more");
    }
  }

  static int64_t cycle_of(const PeriodicOptions& options) {
    const double least = least_cycle(options);
    if (options.cycle_ns == 0) {
      if (!std::isfinite(options.headroom) || options.headroom < 1) {
        throw std::invalid_argument("headroom must be 1 or more");
      }
      if (least <= 0) throw std::invalid_argument("a cycle needs measured costs");
      return static_cast<int64_t>(std::ceil(std::min(least * options.headroom, most_cycle)));
    }
    if (options.cycle_ns < 0 || static_cast<double>(options.cycle_ns) < least) {
      throw std::invalid_argument("a cycle of " + std::to_string(options.cycle_ns) +
                                  " ns is below the bound of " + text(least) + " ns");
    }
    return std::min(options.cycle_ns, static_cast<int64_t>(most_cycle));
  }

  // Whether a row of that age arrived before the last line of a grid of `step`; if not, `again` is
  // at most the grid's next line.
  bool due(int64_t step, int64_t now, int64_t age, int64_t& again) const {
    const int64_t line = begin_ + (now - begin_) / step * step;
    if (line != begin_ && now - age <= line) return true;
    again = std::min(again, line + step);
    return false;
  }

  static constexpr double most_cycle = 1e12;
  static constexpr uint32_t most_write_cycles = 1000;

  const int64_t cycle_;
  const int64_t write_cycle_;
  const uint64_t enough_;
  int64_t begin_ = unset;
};

}  // namespace isotherm
