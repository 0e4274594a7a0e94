// GreedyPolicy: all rows that wait go as soon as the device takes another batch.
//
// A batch is filled until it is large enough to fill the device, or until the queue was looked at
// as often as the budget allows. So a few looks gather requests that come one by one, and nobody
// waits for requests that do not come. While as many batches as allowed are on the device, rows
// gather by themselves and looks are not counted.
//
// Threads. One. Sources. KVCG, section 5 (batches of twice the device's threads, a dequeue budget,
// a stream for each thread that dispatches).
#pragma once

#include <algorithm>
#include <stdexcept>

#include "executor/scheduling_policy.h"
#include "isotherm/scheduling.h"

namespace isotherm {

class GreedyPolicy final : public SchedulingPolicy {
 public:
  explicit GreedyPolicy(const GreedyOptions& options) : options_(options) {
    if (options.most_rows == 0 || options.budget == 0 || options.most_on_device == 0) {
      throw std::invalid_argument(
          "greedy scheduling needs a batch of at least one row, a budget of at least one look and "
          "at least one batch on the device");
    }
  }

  BatchDecision decide(const WaitingRows& waiting) override {
    const uint64_t rows = waiting.reads + waiting.writes;
    if (rows == 0 || waiting.on_device >= options_.most_on_device) return {};
    ++looks_;
    if (rows < options_.most_rows && looks_ < options_.budget) {
      return {0, 0, BatchRoute::bulk, waiting.now};
    }
    looks_ = 0;
    const uint64_t reads = std::min(waiting.reads, options_.most_rows);
    const uint64_t writes = std::min(waiting.writes, options_.most_rows - reads);
    return {reads, writes, BatchRoute::bulk, waiting.now};
  }

  // More looks than one are for rows that come one by one.
  bool gathers() const override { return options_.budget > 1; }

 private:
  const GreedyOptions options_;
  uint32_t looks_ = 0;  // since the last batch
};

}  // namespace isotherm
