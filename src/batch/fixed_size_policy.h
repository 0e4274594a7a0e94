// FixedSizePolicy: a batch goes when it is full, or when its oldest row has waited for the timeout;
// reads and writes are counted apart.
//
// Threads. One. Sources. MemcachedGPU, section 3.1 (batches of 512 of one type) and section 5.3
// (that a timeout would bound the wait for a full batch).
#pragma once

#include <algorithm>
#include <stdexcept>

#include "executor/scheduling_policy.h"
#include "isotherm/scheduling.h"

namespace isotherm {

class FixedSizePolicy final : public SchedulingPolicy {
 public:
  explicit FixedSizePolicy(const FixedSizeOptions& options) : options_(options) {
    if (options.rows == 0 || options.timeout_ns < 0) {
      throw std::invalid_argument(
          "fixed-size scheduling needs a batch of at least one row and a timeout of 0 or more");
    }
  }

  BatchDecision decide(const WaitingRows& waiting) override {
    BatchDecision decision;
    decision.reads = due(waiting.reads, waiting.read_age, waiting.now, decision.again);
    decision.writes = due(waiting.writes, waiting.write_age, waiting.now, decision.again);
    return decision;
  }

 private:
  uint64_t due(uint64_t rows, int64_t age, int64_t now, int64_t& again) const {
    if (rows == 0) return 0;
    if (rows >= options_.rows) {
      if (rows > options_.rows) again = now;
      return options_.rows;
    }
    if (age >= options_.timeout_ns) return rows;
    again = std::min(again, now + (options_.timeout_ns - age));
    return 0;
  }

  const FixedSizeOptions options_;
};

}  // namespace isotherm
